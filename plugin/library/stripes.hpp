// The chunks of a call as the rooms below take them, checked before the first byte is written.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <span>
#include <string_view>

#include "ec/codec.hpp"
#include "kernels/region.hpp"

namespace ec::library {

/// Chunks of one call; on the stack for a stripe of common size.
template <class Chunk>
using Chunks = boost::container::small_vector<Chunk, 32>;

template <class Chunk>
std::span<const Chunk> view(const Chunks<Chunk>& chunks) {
  return {chunks.data(), chunks.size()};
}

/// An array that a caller passed: chunks stripe after stripe, so many in each, under the parameter's name.
template <class Chunk>
struct Argument {
  std::string_view name;
  std::span<const Chunk> chunks;
  std::size_t each;
};

struct Stripes {
  /// Throws Refusal unless both arrays hold the same number of whole stripes, all chunks are equally long and
  /// of a residence that there is, and, where there are bytes, no chunk is null and no target overlaps
  /// another chunk of its stripe. for_stream: no chunk may be pageable, which work on a stream cannot reach.
  Stripes(const Argument<Source>& from, const Argument<Target>& to, bool for_stream);

  std::size_t count;  ///< of stripes
  std::size_t bytes;  ///< of every chunk
  Chunks<kernels::Source> sources;
  Chunks<kernels::Target> targets;
  bool on_device = false;  ///< whether some chunk lies in device memory
};

}  // namespace ec::library
