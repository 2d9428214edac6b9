// A bounded pool of pinned memory: page-locking costs far more than coding a stripe, so blocks are kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda/device/driver.hpp"

namespace ec::kernels::cuda {

class PinnedPool;

/// A block of pinned memory, aligned to a page, returned to its pool on destruction. The pool must outlive
/// it.
class PinnedBlock {
 public:
  PinnedBlock() = default;
  PinnedBlock(PinnedBlock&& o) noexcept { swap(o); }
  PinnedBlock& operator=(PinnedBlock&& o) noexcept {
    PinnedBlock(std::move(o)).swap(*this);
    return *this;
  }
  ~PinnedBlock();

  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }
  explicit operator bool() const { return data_ != nullptr; }

  /// Gives the memory up for good: a device that stopped answering may still write it.
  void quarantine();

 private:
  friend class PinnedPool;
  PinnedBlock(PinnedPool* pool, std::uint8_t* data, std::size_t size)
      : pool_(pool), data_(data), size_(size) {}
  void swap(PinnedBlock& o) noexcept {
    std::swap(pool_, o.pool_);
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
  }

  PinnedPool* pool_ = nullptr;
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Thread safe. allocate() needs the device's context current, as does the destructor; returning a block does
/// not.
class PinnedPool {
 public:
  /// limit: bytes in all, free, lent and quarantined blocks together. idle: whether the device has nothing of
  /// ours to do, and answers; must not use the pool.
  PinnedPool(
      const Driver& driver, std::size_t limit, std::function<bool()> idle = [] { return true; })
      : driver_(driver), limit_(limit), idle_(std::move(idle)) {}
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;
  ~PinnedPool();

  /// A block of at least `bytes`, rounded up to a power of two of 64 KiB or more. Where the bound leaves no
  /// room for one, free blocks of other sizes are released for it, no more than it takes, while the device is
  /// idle: a release waits for all that the device has to do, which may never end. Empty if there is no room
  /// then, or the driver has no memory.
  PinnedBlock allocate(std::size_t bytes);

  std::size_t limit() const { return limit_; }
  std::size_t bytes_held() const;

 private:
  friend class PinnedBlock;
  struct Block {
    std::uint8_t* data;
    std::size_t size;
  };
  /// The blocks of one size.
  struct Shelf {
    std::vector<std::uint8_t*> free;
    std::size_t out = 0;  ///< the others: lent, on their way, or given up

    std::uint8_t* take();
  };
  /// Allocates nothing, for it runs in destructors: a shelf has room for all of its blocks.
  void give_back(const Block& block) noexcept;
  /// Free blocks of so many bytes or more in all, as few as that takes, off their shelves; none if there are
  /// not enough. They count as held until they are released.
  std::vector<Block> take_free_locked(std::size_t bytes);
  /// Null if the driver has no memory.
  std::uint8_t* make(std::size_t size) const;
  /// Whether the driver took it back; the caller counts it off. If not, or if the device is not idle any
  /// more, the block is free again.
  bool release(const Block& block);

  const Driver& driver_;
  const std::size_t limit_;
  const std::function<bool()> idle_;
  mutable std::mutex mutex_;
  std::size_t held_ = 0;
  std::map<std::size_t, Shelf> shelves_;  // by size
};

}  // namespace ec::kernels::cuda
