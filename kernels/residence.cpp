// The known arena, without a lock.
#include "kernels/residence.hpp"

#include <cstdint>

namespace ec::kernels {
namespace {

constinit std::atomic<std::uintptr_t> arena_start{0};
constinit std::atomic<std::size_t> arena_bytes{0};

}  // namespace

constinit std::atomic<unsigned> detail::known_arenas{0};

KnownArena::KnownArena(const void* start, std::size_t bytes) {
  arena_start.store(reinterpret_cast<std::uintptr_t>(start), std::memory_order_relaxed);
  arena_bytes.store(bytes, std::memory_order_relaxed);
  detail::known_arenas.fetch_add(1, std::memory_order_release);
}

KnownArena::~KnownArena() { detail::known_arenas.fetch_sub(1, std::memory_order_release); }

Residence detail::residence_in_arena(const void* first, std::size_t bytes) noexcept {
  const std::size_t length = arena_bytes.load(std::memory_order_relaxed);
  const std::size_t offset =
      reinterpret_cast<std::uintptr_t>(first) - arena_start.load(std::memory_order_relaxed);
  return offset < length && bytes <= length - offset ? Residence::pinned : Residence::pageable;
}

}  // namespace ec::kernels
