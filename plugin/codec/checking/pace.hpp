// The calls of a thread that are compared.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

namespace ec::codec {

/// The pace of one thread, zero at first: no lock, no memory that other threads write. A thread codes through
/// one validator, except in tests.
struct Pace {
  std::uint32_t of;  ///< the validator whose calls are counted
  std::uint32_t left;
  std::uint64_t random;

  /// Whether this call of `whose` (not 0) is to be compared. Gaps between such calls are drawn from 1 to
  /// 2 x every - 1 (every: at least 1), so that no rhythm of the caller's calls evades them.
  bool is_due(std::uint32_t whose, unsigned every) noexcept {
    return !passes(whose) && start_gap(whose, every);
  }

  /// Takes the next call if that call is not to be compared.
  bool passes(std::uint32_t whose) noexcept {
    if (of != whose || left <= 1) return false;
    --left;
    return true;
  }

  /// From 0 to below - 1.
  std::uint64_t draw(std::uint64_t below) noexcept {
    // splitmix64 (Steele, Lea and Flood, 2014): nobody has to be kept from guessing.
    if (random == 0)
      random = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
               reinterpret_cast<std::uintptr_t>(this);
    std::uint64_t z = random += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % below;
  }

 private:
  [[gnu::noinline]] bool start_gap(std::uint32_t whose, unsigned every) noexcept {
    const auto gap = [&] { return static_cast<std::uint32_t>(1 + draw(2 * std::uint64_t{every} - 1)); };
    if (std::exchange(of, whose) != whose) {
      left = gap();
      if (--left != 0) return false;
    }
    left = gap();
    return true;
  }
};

}  // namespace ec::codec
