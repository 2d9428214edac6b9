// The work and the holdings of the device room, as plain numbers to show.
#pragma once

#include <atomic>
#include <cstdint>

namespace ec::kernels {

enum class DeviceState : std::uint64_t { none, coming_up, up, latched };

/// The layout is part of codec::StatsPage: another layout is another stats_layout. Counts never fall; *_bytes
/// are held now.
struct DeviceStats {
  std::uint64_t state = 0;           ///< a DeviceState, of the best device; none: not tried yet, or no device
  std::uint64_t starts = 0;          ///< times a device came up
  std::uint64_t failed_starts = 0;   ///< times a device was tried and did not come up
  std::uint64_t latches = 0;         ///< times a device was taken out of service after a fault
  std::uint64_t staging_bytes = 0;   ///< pinned memory for staging, in use and given up
  std::uint64_t given_up_bytes = 0;  ///< its part of devices that stopped answering and may still write
  std::uint64_t device_bytes = 0;    ///< device memory for tables of addresses
  std::uint64_t shared_by_mps = 0;   ///< 1 if the device that came up last is shared by MPS
};

/// Relaxed, any thread. A counter may lie in memory that is const to the reader.
inline std::uint64_t read(const std::uint64_t& counter) noexcept {
  return std::atomic_ref(const_cast<std::uint64_t&>(counter)).load(std::memory_order_relaxed);
}
inline void add(std::uint64_t& counter, std::uint64_t n) noexcept {
  std::atomic_ref(counter).fetch_add(n, std::memory_order_relaxed);
}
inline void set(std::uint64_t& counter, std::uint64_t n) noexcept {
  std::atomic_ref(counter).store(n, std::memory_order_relaxed);
}

namespace detail {
inline DeviceStats own_device_stats;
inline std::atomic<DeviceStats*> device_stats{&own_device_stats};
}  // namespace detail

/// The numbers of this process.
inline DeviceStats& device_stats() noexcept { return *detail::device_stats.load(std::memory_order_acquire); }

/// From now on the numbers are kept in `place`, which must live as long as the process; earlier counts are
/// carried over. For set-up, before the device is used: counts during the call may be lost.
inline void keep_device_stats_in(DeviceStats& place) noexcept {
  if (&place == &device_stats()) return;
  place = device_stats();
  detail::device_stats.store(&place, std::memory_order_release);
}

}  // namespace ec::kernels
