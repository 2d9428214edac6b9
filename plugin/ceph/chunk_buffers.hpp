// Between bufferlists, in any number of pieces, and chunks that kernels read and write: cuts and gathers the
// pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "kernels/residence.hpp"
#include "plugin/codec/stats/stats.hpp"
#include "rados/buffer.h"

// All symbols of that header that we use. They are weak, so that a host whose buffers have others loads us,
// and we pass through. Another compiler or release of the header may use more; then loader_without_ceph
// fails.
asm(R"(
  .weak _ZN4ceph6buffer7v15_2_06createEj
  .weak _ZN4ceph6buffer7v15_2_014create_alignedEjj
  .weak _ZN4ceph6buffer7v15_2_03ptrC1ENS_19unique_leakable_ptrINS1_3rawEEE
  .weak _ZN4ceph6buffer7v15_2_03ptrC1EOS2_
  .weak _ZN4ceph6buffer7v15_2_03ptrC2EOS2_
  .weak _ZN4ceph6buffer7v15_2_03ptrC1ERKS2_
  .weak _ZN4ceph6buffer7v15_2_03ptrC1ERKS2_jj
  .weak _ZN4ceph6buffer7v15_2_03ptraSEOS2_
  .weak _ZN4ceph6buffer7v15_2_03ptr7releaseEv
  .weak _ZN4ceph6buffer7v15_2_03ptr5c_strEv
  .weak _ZNK4ceph6buffer7v15_2_03ptr5c_strEv
  .weak _ZNK4ceph6buffer7v15_2_03ptr10raw_lengthEv
  .weak _ZN4ceph6buffer7v15_2_04list5c_strEv
  .weak _ZN4ceph6buffer7v15_2_04list6appendERKNS1_3ptrEjj
  .weak _ZN4ceph6buffer7v15_2_04list6appendERKS2_
  .weak _ZN4ceph6buffer7v15_2_04list17always_empty_bptrE
  .weak _ZN4ceph6buffer7v15_2_08ptr_node24dispose_if_hypercombinedEPS2_
)");

namespace ec::ceph {

using ::ceph::bufferlist;
using ::ceph::bufferptr;

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

/// New buffers of one length. Up to most_in_one they lie in one buffer, side by side, which lives as long as
/// one of them: an allocation takes a kernel's time.
class NewBuffers {
 public:
  /// Bytes. A Zen 5, encode of 4+2 to 10+4 against a buffer for each chunk: with tcmalloc 128 to 512 KiB an
  /// object 0.98 to 1.17, in the median 1.05; with glibc 256 to 448 KiB 0.93 to 1.15, in the median 1.09.
  static constexpr unsigned most_in_one = 256 << 10;

  NewBuffers(unsigned count, unsigned bytes)
      : bytes_(bytes),
        stride_((std::uint64_t{bytes} + buffer_alignment - 1) / buffer_alignment * buffer_alignment),
        all_(stride_ * count <= most_in_one ? static_cast<unsigned>(stride_ * count) : bytes) {}

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

/// Cuts a bufferlist into consecutive chunks. The list must outlive it unchanged.
class ChunkCutter {
 public:
  explicit ChunkCutter(const bufferlist& list) : piece_(list.buffers().begin()), end_(list.buffers().end()) {}

  /// Adds the next `bytes` (1 or more) to `to`, an empty list, in one piece: shared with the list that is cut
  /// where they lie in one, otherwise copied; past its end there are zeros. The source lives as long as the
  /// piece.
  kernels::Source next(unsigned bytes, bufferlist& to) {
    if (left() < bytes) {
      to.push_back(gather(bytes));
    } else {
      to.append(*piece_, offset_, bytes);
      offset_ += bytes;
    }
    return source_at(bytes_of(to.front()), bytes);
  }

 private:
  /// Bytes from here to the end of a piece; 0 at the end of the list.
  unsigned left() {
    for (; piece_ != end_ && offset_ == piece_->length(); ++piece_) offset_ = 0;
    return piece_ == end_ ? 0 : piece_->length() - offset_;
  }
  bufferptr gather(unsigned bytes) {
    bufferptr copy = make_buffer(bytes);
    unsigned done = 0;
    while (const unsigned n = std::min(bytes - done, left())) {
      std::memcpy(copy.c_str() + done, piece_->c_str() + offset_, n);
      done += n;
      offset_ += n;
    }
    std::memset(copy.c_str() + done, 0, bytes - done);
    return copy;
  }

  bufferlist::buffers_t::const_iterator piece_, end_;
  unsigned offset_ = 0;
};

}  // namespace ec::ceph
