// What all launches share.
#include "kernels/cuda/kernels/chunk_views.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ec::kernels::cuda {

unsigned blocks_for(const ChunkViews& chunks, std::size_t blocks, unsigned threads, std::size_t tile_bytes) {
  /// Read ahead of what is written; a few times what 50 GB/s and 2 us need.
  constexpr std::size_t in_flight_bytes = 768 * 1024;
  constexpr std::size_t least_in_flight_bytes = 128 * 1024;
  constexpr std::size_t most_blocks = std::size_t{1} << 30;
  if (chunks.link_jobs != 0) {
    const std::size_t share = std::max(in_flight_bytes / chunks.link_jobs, least_in_flight_bytes);
    const std::size_t warps = share / (tile_bytes * std::max<std::size_t>(chunks.sources.size(), 1));
    blocks = std::min(blocks, std::max<std::size_t>(warps / (threads / 32), 4));
  }
  return static_cast<unsigned>(std::min(blocks, most_blocks));
}

std::size_t ChunkViews::alignment() const {
  std::uintptr_t addresses = 4096;
  for (const auto* p : sources) addresses |= reinterpret_cast<std::uintptr_t>(p);
  for (const auto* p : targets) addresses |= reinterpret_cast<std::uintptr_t>(p);
  return std::size_t{1} << std::countr_zero(addresses);
}

void fill_blob(std::uint8_t* blob, const ChunkViews& chunks, const gf::Matrix& matrix, unsigned first_row) {
  std::memcpy(blob, chunks.sources.data(), chunks.sources.size_bytes());
  blob += chunks.sources.size_bytes();
  std::memcpy(blob, chunks.targets.data(), chunks.targets.size_bytes());
  blob += chunks.targets.size_bytes();
  for (unsigned r = 0; r < chunks.targets.size(); ++r)
    blob = std::ranges::copy(matrix.row(first_row + r), blob).out;
}

}  // namespace ec::kernels::cuda
