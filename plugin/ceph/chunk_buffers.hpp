// Between bufferlists, in any number of pieces, and chunks that kernels read and write: cuts, gathers and
// walks the pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "kernels/residence.hpp"
#include "plugin/codec/stats/stats.hpp"
#include "rados/buffer.h"

namespace ec::ceph {

using ::ceph::bufferlist;
using ::ceph::bufferptr;

/// Below this mean length of a piece a copy into one buffer is cheaper than a kernel call for each segment.
inline constexpr unsigned smallest_mean_piece = 2048;

/// Shorter buffers come from plain memory: glibc takes 730 instructions for aligned memory of 1 KiB, and
/// 370 for other memory. Longer buffers would take another page, or a larger size class, of their
/// allocator.
inline constexpr unsigned plain_below = 64 << 10;

inline const std::uint8_t* bytes_of(const ::ceph::bufferptr& p) {
  return reinterpret_cast<const std::uint8_t*>(p.c_str());
}
inline kernels::Source source_at(const std::uint8_t* bytes, std::size_t length) {
  return {bytes, kernels::residence_of(bytes, length)};
}

/// Alignment in bytes of every buffer made here: a vector register of AVX-512, and a cache line.
inline constexpr unsigned buffer_alignment = 64;

/// A new buffer of `bytes`, contents undefined. Throws ceph::buffer::bad_alloc.
inline bufferptr make_buffer(unsigned bytes) {
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

/// Sees to it that a buffer is never freed: a device that stopped answering may still write it. Cannot fail.
inline void abandon(const bufferptr& buffer) noexcept {
  codec::stats().happened(codec::Event::bytes_given_up, buffer.length());
  // One reference is never given back: no destructor runs for the pointer that has it.
  alignas(bufferptr) std::byte place[sizeof(bufferptr)];
  new (place) bufferptr(buffer);
}

/// New buffers of one length. Small ones lie in one, side by side: an allocation takes a kernel's time.
class NewBuffers {
 public:
  NewBuffers(unsigned count, unsigned bytes)
      : bytes_(bytes),
        stride_((std::uint64_t{bytes} + buffer_alignment - 1) / buffer_alignment * buffer_alignment),
        all_(stride_ * count < plain_below ? static_cast<unsigned>(stride_ * count) : bytes) {}

  /// The next one, contents undefined. Throws ceph::buffer::bad_alloc.
  bufferptr next() {
    if (offset_ == 0) buffer_ = make_buffer(all_);
    bufferptr piece(buffer_, offset_, bytes_);
    offset_ = offset_ + stride_ < all_ ? static_cast<unsigned>(offset_ + stride_) : 0;
    return piece;
  }

 private:
  const unsigned bytes_;
  const std::uint64_t stride_;  ///< may be 4 GiB
  const unsigned all_;          ///< bytes allocated at once
  unsigned offset_ = 0;
  bufferptr buffer_;
};

/// Where the device may put a result: straight into a buffer that we can abandon if the device stops
/// answering, or only into staging memory of its own, because the buffer is the host's and stays in use
/// whatever happens.
enum class Writes { in_place, staged };

/// All of a buffer to be written. A device never writes a target that is marked pageable.
inline kernels::Target target_of(bufferptr& buffer, Writes writes) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(buffer.c_str());
  return {bytes, writes == Writes::in_place ? kernels::residence_of(bytes, buffer.length())
                                            : kernels::Residence::pageable};
}

/// A place in a bufferlist, which must outlive it unchanged.
struct PieceCursor {
  using Piece = bufferlist::buffers_t::const_iterator;

  PieceCursor() = default;
  explicit PieceCursor(const bufferlist& list) : piece(list.buffers().begin()), end(list.buffers().end()) {}
  /// Bytes from here to the end of a piece; 0 at the end of the list.
  unsigned left() {
    for (; piece != end && offset == piece->length(); ++piece) offset = 0;
    return piece == end ? 0 : piece->length() - offset;
  }

  Piece piece, end;
  unsigned offset = 0;
};

/// Cuts a bufferlist into consecutive chunks. The list must outlive it unchanged.
class ChunkCutter {
 public:
  explicit ChunkCutter(const bufferlist& list) : at_(list) {}

  /// Adds the next `bytes` (1 or more) to `to`, an empty list, in one piece: shared with the list that is cut
  /// where they lie in one, otherwise copied; past its end there are zeros. The source lives as long as the
  /// piece.
  kernels::Source next(unsigned bytes, bufferlist& to) {
    if (at_.left() < bytes) {
      to.push_back(gather(bytes));
    } else {
      to.append(*at_.piece, at_.offset, bytes);
      at_.offset += bytes;
    }
    return source_at(bytes_of(to.front()), bytes);
  }

 private:
  bufferptr gather(unsigned bytes) {
    bufferptr copy = make_buffer(bytes);
    unsigned done = 0;
    while (const unsigned n = std::min(bytes - done, at_.left())) {
      std::memcpy(copy.c_str() + done, at_.piece->c_str() + at_.offset, n);
      done += n;
      at_.offset += n;
    }
    std::memset(copy.c_str() + done, 0, bytes - done);
    return copy;
  }

  PieceCursor at_;
};

/// Walks several bufferlists of equal length together, in segments that are contiguous in each.
class SegmentWalker {
 public:
  /// The lists must outlive the walker unchanged. Lists in many small pieces are copied into one buffer
  /// first, because each segment costs a call.
  explicit SegmentWalker(std::span<const bufferlist* const> lists) : lists_(lists.size()) {
    cursors_.reserve(lists.size());
    for (std::size_t i = 0; i < lists.size(); ++i) {
      lists_[i] = *lists[i];
      if (const unsigned pieces = lists_[i].get_num_buffers();
          pieces > 1 && lists_[i].length() / pieces < smallest_mean_piece)
        lists_[i].rebuild();
      cursors_.emplace_back(lists_[i]);
    }
  }

  /// Points sources[i] at the next segment of list i; returns its bytes, or 0 at the end.
  std::size_t next(std::span<kernels::Source> sources) {
    unsigned segment = UINT32_MAX;
    for (PieceCursor& c : cursors_) segment = std::min(segment, c.left());
    for (std::size_t i = 0; segment != 0 && i < cursors_.size(); ++i) {
      PieceCursor& c = cursors_[i];
      sources[i] = source_at(bytes_of(*c.piece) + c.offset, segment);
      c.offset += segment;
    }
    return segment;
  }

 private:
  std::vector<bufferlist> lists_;
  std::vector<PieceCursor> cursors_;
};

}  // namespace ec::ceph
