// Residence: where the bytes of a chunk lie. The two views of chunks that every kernel works on, and the
// residence of host memory for callers that have an address and nothing else.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ec::kernels {

/// pageable: ordinary host memory. pinned: page-locked host memory that the device can address in place.
/// device: memory of the device, which the host must not touch.
enum class Residence : int { pageable, pinned, device };

constexpr std::string_view name(Residence r) {
  return r == Residence::pageable ? "pageable" : r == Residence::pinned ? "pinned" : "device";
}

/// One chunk that is read. Does not own; any alignment. No defaults, so that lists are not zeroed first.
struct Source {
  const std::uint8_t* data;
  Residence residence;
};

/// One chunk that is written. Does not own; any alignment. Must overlap no source and no other target.
struct Target {
  std::uint8_t* data;
  Residence residence;
};

/// The arena of this process, which is pinned, is known while an object of this class lives: [start, start +
/// bytes). There may be several objects, for devices that share the arena. Thread safe.
class KnownArena {
 public:
  KnownArena(const void* start, std::size_t bytes) noexcept {
    start_.store(reinterpret_cast<std::uintptr_t>(start), std::memory_order_relaxed);
    bytes_.store(bytes, std::memory_order_relaxed);
    objects_.fetch_add(1, std::memory_order_release);
  }
  KnownArena(const KnownArena&) = delete;
  KnownArena& operator=(const KnownArena&) = delete;
  ~KnownArena() { objects_.fetch_sub(1, std::memory_order_release); }

  static bool holds(std::uintptr_t first, std::size_t bytes) noexcept {
    if (objects_.load(std::memory_order_acquire) == 0) return false;
    const std::size_t length = bytes_.load(std::memory_order_relaxed);
    const std::size_t offset = first - start_.load(std::memory_order_relaxed);
    return offset < length && bytes <= length - offset;
  }

 private:
  static inline constinit std::atomic<unsigned> objects_{0};
  static inline constinit std::atomic<std::uintptr_t> start_{0};
  static inline constinit std::atomic<std::size_t> bytes_{0};
};

/// Where [first, first + bytes) of host memory lies, by the known arena alone: pinned if the arena holds the
/// whole range, else pageable, which is right for any host memory: the CPU codes or stages such bytes. A few
/// loads; takes no lock and calls nobody. bytes may be 0. Thread safe.
///
/// The answer stays right after a block is freed and its address is handed out again, because the known range
/// is a whole arena, which stays mapped for good: every block at an address in it is page-locked. An arena
/// that is to be unlocked is withdrawn first, after the last job of its device; a caller that asked just
/// before then finds no device, and its chunks are host memory, which the CPU codes. If the caller finds a
/// device that came up since and did not lock the arena, the kernel faults and the CPU codes.
inline Residence residence_of(const void* first, std::size_t bytes) noexcept {
  const bool pinned = KnownArena::holds(reinterpret_cast<std::uintptr_t>(first), bytes);
  return pinned ? Residence::pinned : Residence::pageable;
}

}  // namespace ec::kernels
