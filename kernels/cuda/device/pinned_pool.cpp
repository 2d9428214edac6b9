#include "kernels/cuda/device/pinned_pool.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include "kernels/tallies.hpp"

namespace ec::kernels::cuda {
namespace {
constexpr std::size_t smallest_block = 64 * 1024;
}

PinnedBlock::~PinnedBlock() {
  if (data_ != nullptr) pool_->give_back({data_, size_});
}

void PinnedBlock::quarantine() {
  if (data_ != nullptr) add(device_tallies().given_up_bytes, size_);
  data_ = nullptr;
}

PinnedPool::~PinnedPool() {
  for (auto& [size, shelf] : shelves_)
    for (auto* block : shelf.free) {
      driver_.mem_free_host(block);
      add(device_tallies().staging_bytes, -std::uint64_t{size});
    }
}

std::uint8_t* PinnedPool::Shelf::take() {
  auto* data = free.back();
  free.pop_back();
  ++out;
  return data;
}

PinnedBlock PinnedPool::allocate(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(bytes, smallest_block));
  std::unique_lock lock(mutex_);
  Shelf& shelf = shelves_[size];
  if (!shelf.free.empty()) return {this, shelf.take(), size};
  const std::size_t room = limit_ - held_;
  shelf.free.reserve(shelf.out + 1);
  auto in_the_way = size > room && idle_() ? take_free_locked(size - room) : std::vector<Block>();
  if (size > room && in_the_way.empty()) return {};
  std::size_t reserved = std::min(size, room);
  held_ += reserved;
  ++shelf.out;
  lock.unlock();  // the driver takes its time
  std::erase_if(in_the_way, [&](const Block& block) { return !release(block); });
  for (const Block& block : in_the_way) reserved += block.size;
  std::uint8_t* data = reserved < size ? nullptr : make(size);
  lock.lock();
  for (const Block& block : in_the_way) --shelves_.at(block.size).out;
  held_ -= reserved - (data == nullptr ? 0 : size);
  if (data != nullptr) return {this, data, size};
  --shelf.out;
  return {};
}

std::uint8_t* PinnedPool::make(std::size_t size) const {
  void* data = nullptr;
  if (driver_.mem_host_alloc(&data, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) !=
      CUDA_SUCCESS)
    return nullptr;
  add(device_tallies().staging_bytes, size);
  return static_cast<std::uint8_t*>(data);
}

std::vector<PinnedPool::Block> PinnedPool::take_free_locked(std::size_t bytes) {
  std::size_t all = 0, count = 0;
  for (const auto& [size, shelf] : shelves_) {
    all += size * shelf.free.size();
    count += shelf.free.size();
  }
  std::vector<Block> taken;
  if (all < bytes) return taken;
  taken.reserve(count);
  const auto has_blocks = [](const auto& entry) { return !entry.second.free.empty(); };
  for (std::size_t missing = bytes; missing > 0;) {
    // The smallest that is enough by itself, or the largest.
    auto from = std::find_if(shelves_.lower_bound(missing), shelves_.end(), has_blocks);
    if (from == shelves_.end())
      from = std::prev(std::find_if(shelves_.rbegin(), shelves_.rend(), has_blocks).base());
    taken.push_back({from->second.take(), from->first});
    missing -= std::min(missing, from->first);
  }
  return taken;
}

bool PinnedPool::release(const Block& block) {
  if (!idle_() || driver_.mem_free_host(block.data) != CUDA_SUCCESS) {
    give_back(block);
    return false;
  }
  add(device_tallies().staging_bytes, -std::uint64_t{block.size});
  return true;
}

void PinnedPool::give_back(const Block& block) noexcept {
  std::lock_guard lock(mutex_);
  Shelf& shelf = shelves_.at(block.size);
  shelf.free.push_back(block.data);
  --shelf.out;
}

std::size_t PinnedPool::bytes_held() const {
  std::lock_guard lock(mutex_);
  return held_;
}

}  // namespace ec::kernels::cuda
