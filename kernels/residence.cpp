// The known ranges, without a lock.
#include "kernels/residence.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace ec::kernels {

/// Never freed, because a reader may still look at one that was withdrawn; the same range is taken again
/// instead.
struct KnownRange::Range {
  std::uintptr_t start;
  std::size_t bytes;
  Residence residence;
  const Range* older;
};

struct KnownRanges {
  static inline std::array<std::atomic<const KnownRange::Range*>, 16> places{};
  static inline std::atomic<std::size_t> used_places{0};  // the most that ever were; none in most processes
  static inline std::atomic<const KnownRange::Range*> newest{nullptr};  // of all that ever were
  static inline std::atomic<DriverAnswer> driver{nullptr};

  static const KnownRange::Range* make(std::uintptr_t start, std::size_t bytes, Residence residence) {
    const KnownRange::Range* head = newest.load(std::memory_order_acquire);
    for (const auto* r = head; r != nullptr; r = r->older)
      if (r->start == start && r->bytes == bytes && r->residence == residence) return r;
    auto* made = new KnownRange::Range{start, bytes, residence, head};
    while (!newest.compare_exchange_weak(head, made, std::memory_order_acq_rel)) made->older = head;
    return made;
  }
};

KnownRange::KnownRange(const void* start, std::size_t bytes, Residence residence)
    : range_(KnownRanges::make(reinterpret_cast<std::uintptr_t>(start), bytes, residence)) {
  for (std::size_t i = 0; i < KnownRanges::places.size(); ++i) {
    const Range* nobody = nullptr;
    if (!KnownRanges::places[i].compare_exchange_strong(nobody, range_, std::memory_order_acq_rel)) continue;
    std::size_t used = KnownRanges::used_places.load(std::memory_order_relaxed);
    while (used <= i &&
           !KnownRanges::used_places.compare_exchange_weak(used, i + 1, std::memory_order_release)) {
    }
    return;
  }
}

KnownRange::~KnownRange() {
  for (auto& place : KnownRanges::places) {
    const Range* ours = range_;
    if (place.compare_exchange_strong(ours, nullptr, std::memory_order_acq_rel)) return;
  }
}

Residence residence_of(const void* first, std::size_t bytes) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  const std::size_t used = KnownRanges::used_places.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < used; ++i) {
    const KnownRange::Range* range = KnownRanges::places[i].load(std::memory_order_acquire);
    if (range == nullptr || address < range->start) continue;
    const std::size_t offset = address - range->start;
    if (offset < range->bytes && bytes <= range->bytes - offset) return range->residence;
  }
  return Residence::pageable;
}

Residence residence_by_driver(const void* first, std::size_t bytes) noexcept {
  const Residence known = residence_of(first, bytes);
  if (known != Residence::pageable) return known;
  const DriverAnswer ask = KnownRanges::driver.load(std::memory_order_acquire);
  return ask == nullptr ? known : ask(first, bytes);
}

void answer_residence_with(DriverAnswer answer) noexcept {
  KnownRanges::driver.store(answer, std::memory_order_release);
}

}  // namespace ec::kernels
