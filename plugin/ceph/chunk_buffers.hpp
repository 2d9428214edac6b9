// Between bufferlists, in any number of pieces, and chunks that kernels read and write.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/residence.hpp"
#include "rados/buffer.h"

namespace ec::ceph {

/// Alignment in bytes of every buffer made here: a vector register of AVX-512, and a cache line.
inline constexpr unsigned buffer_alignment = 64;

/// A new buffer of `bytes`, contents undefined. Throws ceph::buffer::bad_alloc.
::ceph::bufferptr make_buffer(unsigned bytes);

/// Sees to it that a buffer is never freed: a device that stopped answering may still write it. Cannot fail.
void abandon(const ::ceph::bufferptr& buffer) noexcept;

/// New buffers of one length. Small ones lie in one, side by side: an allocation takes a kernel's time.
class NewBuffers {
 public:
  NewBuffers(unsigned count, unsigned bytes);

  /// The next one, contents undefined. Throws ceph::buffer::bad_alloc.
  ::ceph::bufferptr next();

 private:
  const unsigned bytes_;
  const std::uint64_t stride_;  ///< may be 4 GiB
  const unsigned all_;          ///< bytes allocated at once
  unsigned offset_ = 0;
  ::ceph::bufferptr buffer_;
};

/// Where the device may put a result: straight into a buffer that we can abandon if the device stops
/// answering, or only into staging memory of its own, because the buffer is the host's and stays in use
/// whatever happens.
enum class Writes { in_place, staged };

/// All of a buffer to be written. A device never writes a target that is marked pageable.
kernels::Target target_of(::ceph::bufferptr& buffer, Writes writes);

/// A cursor that cuts a bufferlist into consecutive chunks. The list must outlive it unchanged.
class ChunkCutter {
 public:
  explicit ChunkCutter(const ::ceph::bufferlist& list)
      : piece_(list.buffers().begin()), end_(list.buffers().end()) {}

  /// Adds the next `bytes` to `to`, an empty list, in one piece: shared with the list that is cut where they
  /// lie in one, otherwise copied; past its end there are zeros. The source lives as long as the piece.
  kernels::Source next(unsigned bytes, ::ceph::bufferlist& to);

 private:
  using Pieces = ::ceph::bufferlist::buffers_t;

  ::ceph::bufferptr gather(unsigned bytes);
  void skip_finished_pieces();

  Pieces::const_iterator piece_;
  Pieces::const_iterator end_;
  unsigned offset_ = 0;
};

inline const std::uint8_t* bytes_of(const ::ceph::bufferptr& p) {
  return reinterpret_cast<const std::uint8_t*>(p.c_str());
}
inline kernels::Source source_at(const std::uint8_t* bytes, std::size_t length) {
  return {bytes, kernels::residence_of(bytes, length)};
}

/// Walks several bufferlists of equal length together, in segments that are contiguous in each.
class SegmentWalker {
 public:
  /// The lists must outlive the walker unchanged. Lists in many small pieces are copied into one buffer
  /// first, because each segment costs a call.
  explicit SegmentWalker(std::span<const ::ceph::bufferlist* const> lists);

  /// Points sources[i] at the next segment of list i; returns its bytes, or 0 at the end.
  std::size_t next(std::span<kernels::Source> sources);

 private:
  struct Cursor {
    ::ceph::bufferlist list;
    ::ceph::bufferlist::buffers_t::const_iterator piece;
    unsigned offset = 0;
  };
  std::vector<Cursor> cursors_;
};

/// Whether all of the list is its front().
inline bool is_one_piece(const ::ceph::bufferlist& list) { return list.get_num_buffers() == 1; }

}  // namespace ec::ceph
