// Cuts, gathers and walks the pieces of bufferlists.
#include "plugin/ceph/chunk_buffers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "kernels/residence.hpp"
#include "plugin/codec/stats/stats.hpp"

namespace ec::ceph {
namespace {

using ::ceph::bufferlist;
using ::ceph::bufferptr;

/// Below this mean length of a piece a copy into one buffer is cheaper than a kernel call for each segment.
constexpr unsigned smallest_mean_piece = 2048;

/// Shorter buffers come from plain memory: glibc takes 730 instructions for aligned memory of 1 KiB, and
/// 370 for other memory. Longer buffers would take another page, or a larger size class, of their
/// allocator.
constexpr unsigned plain_below = 64 << 10;

bool worth_walking(const bufferlist& list) {
  return list.get_num_buffers() <= 1 || list.length() / list.get_num_buffers() >= smallest_mean_piece;
}

}  // namespace

bufferptr make_buffer(unsigned bytes) {
  if (bytes < plain_below) {
    constexpr unsigned spare = buffer_alignment - alignof(std::max_align_t);
    bufferptr buffer(::ceph::buffer::create(bytes + spare));
    const auto begin = reinterpret_cast<std::uintptr_t>(buffer.c_str());
    if (const auto skipped = static_cast<unsigned>(-begin % buffer_alignment); skipped <= spare) {
      buffer.set_offset(skipped);
      buffer.set_length(bytes);
      return buffer;
    }
  }
  return bufferptr(::ceph::buffer::create_aligned(bytes, buffer_alignment));
}

NewBuffers::NewBuffers(unsigned count, unsigned bytes)
    : bytes_(bytes),
      stride_((std::uint64_t{bytes} + buffer_alignment - 1) / buffer_alignment * buffer_alignment),
      all_(stride_ * count < plain_below ? static_cast<unsigned>(stride_ * count) : bytes) {}

bufferptr NewBuffers::next() {
  if (offset_ == 0) buffer_ = make_buffer(all_);
  bufferptr piece(buffer_, offset_, bytes_);
  offset_ = offset_ + stride_ < all_ ? static_cast<unsigned>(offset_ + stride_) : 0;
  return piece;
}

void abandon(const bufferptr& buffer) noexcept {
  codec::stats().happened(codec::Event::bytes_given_up, buffer.length());
  // One reference is never given back: no destructor runs for the pointer that has it.
  alignas(bufferptr) std::byte place[sizeof(bufferptr)];
  new (place) bufferptr(buffer);
}

kernels::Target target_of(bufferptr& buffer, Writes writes) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(buffer.c_str());
  return {bytes, writes == Writes::in_place ? kernels::residence_of(bytes, buffer.length())
                                            : kernels::Residence::pageable};
}

void ChunkCutter::skip_finished_pieces() {
  while (piece_ != end_ && offset_ == piece_->length()) {
    ++piece_;
    offset_ = 0;
  }
}

kernels::Source ChunkCutter::next(unsigned bytes, bufferlist& to) {
  skip_finished_pieces();
  if (piece_ == end_ || piece_->length() - offset_ < bytes) {
    to.push_back(gather(bytes));
  } else {
    to.append(*piece_, offset_, bytes);
    offset_ += bytes;
  }
  const std::uint8_t* const begin = bytes_of(to.front());
  return {begin, kernels::residence_of(begin, bytes)};
}

bufferptr ChunkCutter::gather(unsigned bytes) {
  bufferptr copy = make_buffer(bytes);
  unsigned done = 0;
  for (skip_finished_pieces(); done < bytes && piece_ != end_; skip_finished_pieces()) {
    const unsigned n = std::min(bytes - done, piece_->length() - offset_);
    std::memcpy(copy.c_str() + done, piece_->c_str() + offset_, n);
    done += n;
    offset_ += n;
  }
  std::memset(copy.c_str() + done, 0, bytes - done);
  return copy;
}

SegmentWalker::SegmentWalker(std::span<const bufferlist* const> lists) : cursors_(lists.size()) {
  for (std::size_t i = 0; i < lists.size(); ++i) {
    Cursor& cursor = cursors_[i];
    cursor.list = *lists[i];
    if (!worth_walking(cursor.list)) cursor.list.rebuild();
    cursor.piece = std::as_const(cursor.list).buffers().begin();
  }
}

std::size_t SegmentWalker::next(std::span<kernels::Source> sources) {
  unsigned segment = UINT32_MAX;
  for (Cursor& c : cursors_) {
    while (c.piece != std::as_const(c.list).buffers().end() && c.offset == c.piece->length()) {
      ++c.piece;
      c.offset = 0;
    }
    if (c.piece == std::as_const(c.list).buffers().end()) return 0;
    segment = std::min(segment, c.piece->length() - c.offset);
  }
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    const auto* bytes = bytes_of(*cursors_[i].piece) + cursors_[i].offset;
    sources[i] = {bytes, kernels::residence_of(bytes, segment)};
    cursors_[i].offset += segment;
  }
  return segment;
}

}  // namespace ec::ceph
