// What the driver has handed out and not got back, so that a test sees what leaks on any driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>

namespace ec::test::faults {

/// Thread safe.
class Ledger {
 public:
  enum class Memory { pinned, device };

  void allocated(Memory kind, std::uintptr_t address, std::size_t bytes) {
    std::lock_guard lock(mutex_);
    blocks_[address] = {kind, bytes};
  }
  void freed(std::uintptr_t address) {
    std::lock_guard lock(mutex_);
    blocks_.erase(address);
  }
  void made(std::uintptr_t object) {
    std::lock_guard lock(mutex_);
    objects_.insert(object);
  }
  void destroyed(std::uintptr_t object) {
    std::lock_guard lock(mutex_);
    objects_.erase(object);
  }
  /// The driver has taken back all there was.
  void context_gone() {
    std::lock_guard lock(mutex_);
    blocks_.clear();
    objects_.clear();
  }

  std::size_t bytes(Memory kind) const {
    std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    for (const auto& [address, block] : blocks_)
      if (block.kind == kind) sum += block.bytes;
    return sum;
  }
  std::size_t objects() const {
    std::lock_guard lock(mutex_);
    return objects_.size();
  }

 private:
  struct Block {
    Memory kind;
    std::size_t bytes;
  };
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Block> blocks_;
  std::set<std::uintptr_t> objects_;
};

}  // namespace ec::test::faults
