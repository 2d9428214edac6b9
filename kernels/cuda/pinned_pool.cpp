#include "kernels/cuda/pinned_pool.hpp"

#include <algorithm>
#include <bit>

#include "kernels/tallies.hpp"

namespace ec::kernels::cuda {
namespace {
constexpr std::size_t smallest_block = 64 * 1024;
}

PinnedBlock::~PinnedBlock() {
  if (data_ != nullptr) pool_->give_back(data_, size_);
}

void PinnedBlock::quarantine() {
  if (data_ != nullptr) add(device_tallies().given_up_bytes, size_);
  data_ = nullptr;
}

PinnedPool::~PinnedPool() {
  for (auto& [size, blocks] : free_)
    for (auto* block : blocks) {
      driver_.mem_free_host(block);
      add(device_tallies().staging_bytes, -std::uint64_t{size});
    }
}

PinnedBlock PinnedPool::allocate(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(bytes, smallest_block));
  {
    std::lock_guard lock(mutex_);
    if (auto& blocks = free_[size]; !blocks.empty()) {
      auto* data = blocks.back();
      blocks.pop_back();
      return {this, data, size};
    }
    if (size > limit_ - held_) return {};
    held_ += size;
  }
  void* data = nullptr;
  if (driver_.mem_host_alloc(&data, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) ==
      CUDA_SUCCESS) {
    add(device_tallies().staging_bytes, size);
    return {this, static_cast<std::uint8_t*>(data), size};
  }
  std::lock_guard lock(mutex_);
  held_ -= size;
  return {};
}

void PinnedPool::give_back(std::uint8_t* data, std::size_t size) {
  std::lock_guard lock(mutex_);
  free_[size].push_back(data);
}

std::size_t PinnedPool::bytes_held() const {
  std::lock_guard lock(mutex_);
  return held_;
}

}  // namespace ec::kernels::cuda
