// What the process has done, for operators and for tests that must see which back end ran.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/backend.hpp"

namespace ec::codec {

inline constexpr std::size_t max_backends = 8;

struct BackendCounts {
  std::uint64_t calls = 0;         ///< jobs finished by this back end
  std::uint64_t source_bytes = 0;  ///< sources x chunk bytes of those jobs
  std::uint64_t fallbacks = 0;     ///< jobs it was given and did not finish: another back end did
};

/// Monotonic counts by back end, and what the device has in hand; relaxed atomics, so a reader may see a job
/// in one field and not yet in another. Threads count in different shards, or the cache lines of these counts
/// would travel between cores at every small call; a reader adds the shards up.
class Counters {
 public:
  void finished(std::size_t backend, std::uint64_t source_bytes) noexcept {
    Row& row = shards_[shard_of_this_thread()][backend];
    row.calls.fetch_add(1, std::memory_order_relaxed);
    row.source_bytes.fetch_add(source_bytes, std::memory_order_relaxed);
  }
  void fell_back(std::size_t backend) noexcept {
    shards_[shard_of_this_thread()][backend].fallbacks.fetch_add(1, std::memory_order_relaxed);
  }

  /// Calls that are under way on the device, and one more of them while the mark lives.
  unsigned on_device() const noexcept { return on_device_.load(std::memory_order_relaxed); }
  class OnDevice {
   public:
    explicit OnDevice(Counters& counts) noexcept : count_(counts.on_device_) {
      count_.fetch_add(1, std::memory_order_relaxed);
    }
    ~OnDevice() { count_.fetch_sub(1, std::memory_order_relaxed); }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;

   private:
    std::atomic<unsigned>& count_;
  };

  /// backend: its index in kernels::backends().
  BackendCounts read(std::size_t backend) const noexcept;

  /// Threads share a shard when there are more of them.
  static constexpr unsigned shards = 16;

 private:
  static unsigned shard_of_this_thread() noexcept {
    thread_local unsigned shard = shards;
    if (shard == shards) shard = next_shard();
    return shard;
  }
  /// 0, 1, .., shards - 1 in turn.
  static unsigned next_shard() noexcept;

  struct alignas(64) Row {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> source_bytes{0};
    std::atomic<std::uint64_t> fallbacks{0};
  };
  std::array<std::array<Row, max_backends>, shards> shards_;
  alignas(64) std::atomic<unsigned> on_device_{0};
};

/// The counts of this process.
Counters& counters() noexcept;

/// The counts of the back end of that name; zeros if this build has none.
BackendCounts counts_of(std::string_view backend) noexcept;

}  // namespace ec::codec
