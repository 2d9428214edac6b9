// Where the bytes of a chunk lie, for callers that have an address and nothing else.
//
// The answer is exact or errs to `pageable`, which is right for any host memory: such bytes are coded by the
// CPU or staged. The answer stays right after a block is freed and its address is handed out again, because
// the known range is a whole arena, which stays mapped for good: every block at an address in it is
// page-locked. An arena that is to be unlocked is withdrawn first, after the last job of its device; a caller
// that asked just before then finds no device, and its chunks are host memory, which the CPU codes. If the
// caller finds a device that came up since and did not lock the arena, the kernel faults and the CPU codes:
// this costs time and no bytes.
#pragma once

#include <atomic>
#include <cstddef>

#include "kernels/region.hpp"

namespace ec::kernels {

namespace detail {
extern std::atomic<unsigned> known_arenas;  ///< the number of KnownArena objects
Residence residence_in_arena(const void* first, std::size_t bytes) noexcept;
}  // namespace detail

/// Where [first, first + bytes) lies, by the known arena alone: pinned if the arena holds the whole range,
/// else pageable. A few loads; takes no lock and calls nobody. bytes may be 0. Thread safe.
inline Residence residence_of(const void* first, std::size_t bytes) noexcept {
  return detail::known_arenas.load(std::memory_order_acquire) == 0 ? Residence::pageable
                                                                   : detail::residence_in_arena(first, bytes);
}

/// Makes the arena of this process known while the object lives: [start, start + bytes), which is pinned.
/// There may be several, for devices that share the arena, all of the same range. Thread safe.
class KnownArena {
 public:
  KnownArena(const void* start, std::size_t bytes);
  KnownArena(const KnownArena&) = delete;
  KnownArena& operator=(const KnownArena&) = delete;
  ~KnownArena();
};

}  // namespace ec::kernels
