// The memory bound: loops that read and write what a code reads and writes, and compute next to nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/region.hpp"

namespace ec::bench {

/// One way to walk the same bytes. The bound of a case is the fastest of them.
struct Walk {
  std::string name;
  std::size_t tile_bytes;  ///< of every source in turn; a multiple of 64
  bool fetch_ahead;        ///< the same source's next tile
  bool stream;             ///< write past the cache
};

std::span<const Walk> walks();

/// Reads every source and writes every target once; the targets get bytes of the sum of what was read. bytes:
/// of each chunk, a multiple of 64; chunks 64-byte aligned, in host memory. Returns the XOR of all 64-bit
/// words read.
std::uint64_t move_bytes(const Walk& walk, std::span<const kernels::Source> sources,
                         std::span<const kernels::Target> targets, std::size_t bytes);

}  // namespace ec::bench
