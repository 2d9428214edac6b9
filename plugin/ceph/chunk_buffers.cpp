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

void abandon(bufferptr&& buffer) noexcept {
  codec::stats().happened(codec::Event::bytes_given_up, buffer.length());
  // One reference is never given back, and no destructor runs for the pointer that holds it.
  alignas(bufferptr) std::byte place[sizeof(bufferptr)];
  new (place) bufferptr(std::move(buffer));
}

kernels::Target target_of(bufferptr& buffer, Writes writes) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(buffer.c_str());
  return {bytes, writes == Writes::in_place ? kernels::residence_of(bytes, buffer.length())
                                            : kernels::Residence::pageable};
}

kernels::Source source_of(const bufferptr& buffer) {
  return {bytes_of(buffer), kernels::residence_of(bytes_of(buffer), buffer.length())};
}

void ChunkCutter::skip_finished_pieces() {
  while (piece_ != end_ && offset_ == piece_->length()) {
    ++piece_;
    offset_ = 0;
  }
}

bufferptr ChunkCutter::next(unsigned bytes) {
  skip_finished_pieces();
  if (piece_ == end_ || piece_->length() - offset_ < bytes) return gather(bytes);
  bufferptr shared(*piece_, offset_, bytes);
  offset_ += bytes;
  return shared;
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
