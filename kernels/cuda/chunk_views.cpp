#include "kernels/cuda/chunk_views.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ec::kernels::cuda {

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
