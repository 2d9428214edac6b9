// The known range, without a lock.
#include "kernels/residence.hpp"

#include <atomic>
#include <cstdint>

namespace ec::kernels {
namespace {

struct Range {
  std::uintptr_t start;
  std::size_t bytes;
};
std::atomic<const Range*> known{nullptr};
std::atomic<DriverAnswer> driver{nullptr};

}  // namespace

void know_pinned(const void* start, std::size_t bytes) {
  // Never freed, because a reader may still look at one that was withdrawn; the same range is taken again.
  static const Range* last = nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  if (bytes != 0 && (last == nullptr || last->start != address || last->bytes != bytes))
    last = new Range{address, bytes};
  known.store(bytes == 0 ? nullptr : last, std::memory_order_release);
}

Residence residence_of(const void* first, std::size_t bytes) noexcept {
  const Range* range = known.load(std::memory_order_acquire);
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  if (range == nullptr || address < range->start) return Residence::pageable;
  const std::size_t offset = address - range->start;
  const bool inside = offset < range->bytes && bytes <= range->bytes - offset;
  return inside ? Residence::pinned : Residence::pageable;
}

Residence residence_by_driver(const void* first, std::size_t bytes) noexcept {
  const Residence known_residence = residence_of(first, bytes);
  if (known_residence != Residence::pageable) return known_residence;
  const DriverAnswer ask = driver.load(std::memory_order_acquire);
  return ask == nullptr ? known_residence : ask(first, bytes);
}

void answer_residence_with(DriverAnswer answer) noexcept { driver.store(answer, std::memory_order_release); }

}  // namespace ec::kernels
