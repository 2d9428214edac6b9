#include "kernels/cuda/pinned_pool.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

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
  std::unique_lock lock(mutex_);
  if (auto& blocks = free_[size]; !blocks.empty()) {
    auto* data = blocks.back();
    blocks.pop_back();
    return {this, data, size};
  }
  const std::size_t room = limit_ - held_;
  const auto in_the_way = size > room && idle_() ? take_free_locked(size - room) : std::vector<Free>();
  if (size > room && in_the_way.empty()) return {};
  std::size_t reserved = std::min(size, room);
  held_ += reserved;
  lock.unlock();  // the driver takes its time
  for (const Free& block : in_the_way) reserved += release(block);
  std::uint8_t* data = reserved < size ? nullptr : make(size);
  lock.lock();
  held_ -= reserved - (data == nullptr ? 0 : size);
  return data == nullptr ? PinnedBlock() : PinnedBlock(this, data, size);
}

std::uint8_t* PinnedPool::make(std::size_t size) const {
  void* data = nullptr;
  if (driver_.mem_host_alloc(&data, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) !=
      CUDA_SUCCESS)
    return nullptr;
  add(device_tallies().staging_bytes, size);
  return static_cast<std::uint8_t*>(data);
}

std::vector<PinnedPool::Free> PinnedPool::take_free_locked(std::size_t bytes) {
  std::size_t all = 0, count = 0;
  for (const auto& [size, blocks] : free_) {
    all += size * blocks.size();
    count += blocks.size();
  }
  std::vector<Free> taken;
  if (all < bytes) return taken;
  taken.reserve(count);
  const auto has_blocks = [](const auto& entry) { return !entry.second.empty(); };
  for (std::size_t missing = bytes; missing > 0;) {
    // The smallest that is enough by itself, or the largest.
    auto from = std::find_if(free_.lower_bound(missing), free_.end(), has_blocks);
    if (from == free_.end()) from = std::prev(std::find_if(free_.rbegin(), free_.rend(), has_blocks).base());
    taken.push_back({from->second.back(), from->first});
    from->second.pop_back();
    missing -= std::min(missing, from->first);
  }
  return taken;
}

std::size_t PinnedPool::release(const Free& block) {
  if (!idle_() || driver_.mem_free_host(block.data) != CUDA_SUCCESS) {
    give_back(block.data, block.size);
    return 0;
  }
  add(device_tallies().staging_bytes, -std::uint64_t{block.size});
  return block.size;
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
