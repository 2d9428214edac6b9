// How busy others keep the device, as far as this process can see: by how much longer its own calls there
// took than predicted. Processes that share a GPU see each other in nothing else. The CPU's calls beside them
// say how far the table is off on this machine.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace ec::codec {

/// Thread safe, no locks: a race loses an observation. Lies in memory of this process alone, since it decides
/// who codes.
class DeviceLoad {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  /// Calls that the table may get wrong by different factors: up to class_bounds[1] bytes moved the start
  /// counts most, above it the link; pageable chunks are copied by cores.
  enum class Kind : unsigned char { small, large, pageable };
  static constexpr std::size_t kinds = 3;

  /// For a call that the device and the CPU were compared for.
  struct Prediction {
    Kind kind = Kind::small;
    bool probe = false;
    double device_us = 0;  ///< by the table, with this process's own calls in flight
    double cpu_us = 0;     ///< by the table and cpu_factor()
    double cpu_table_us = 0;
  };

  /// No factor leaves lowest .. highest.
  static constexpr double lowest = 0.25, highest = 64;
  /// A call counts as at most so many times longer or shorter than the factor says: a thread that was
  /// interrupted is no busy device. The factor goes half of the way to it, so one call doubles or halves it
  /// at most.
  static constexpr double most_news = 4;
  /// The CPU's factor goes one part in so many of the way to a call, and, while the device has the calls, to
  /// 1: so the CPU is tried again where it was slow for a while.
  static constexpr double cpu_parts = 8, cpu_parts_unseen = 256;
  static constexpr unsigned cpu_sample = 5;  ///< odd too
  /// Of the calls that the CPU gets for the factor alone, one in so many may go to the device, so that the
  /// factor can fall again. The first comes after first_gap calls, since a few slow calls may have been
  /// chance; each further one after twice as many. All are odd: callers often do things in turns of two, four
  /// or eight.
  static constexpr unsigned first_gap = 7, calls_a_probe = 511;
  /// The device gets a call that it is expected to finish in less than this part of what the CPU takes, and a
  /// probe that did is believed at once. Where both are about as fast, many processes would come to the
  /// device again and again, and each time find it busy with the others.
  static constexpr double clear_gain = 0.75;
  /// After a probe that took t longer than the CPU, no other comes before so many times t have passed.
  static constexpr int quiet = 128;

  /// now: for tests.
  constexpr explicit DeviceLoad(Now now = &Clock::now) noexcept : now_(now) {}

  /// What calls of that kind took lately over what was predicted; 1 before the first.
  double factor(Kind kind) const noexcept {
    return factors_[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
  }

  /// The same of the CPU.
  double cpu_factor(Kind kind) const noexcept {
    return cpu_factors_[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
  }

  /// Whether this call, which the CPU would get for the factor alone, is to go to the device. Reads the clock
  /// as often as a probe could come.
  bool claim_probe(const Prediction& call) noexcept;

  Clock::time_point now() const noexcept { return now_(); }
  /// The device has finished a call that began at `begun`. A probe that was clearly faster than the CPU is
  /// believed at once: the factor is what it took.
  void took(const Prediction& call, Clock::time_point begun) noexcept;
  /// Whether a call that the CPU gets is to be timed: of a thread's small ones each cpu_sample-th, since they
  /// take little more than what threads pay for writing one line of the cache.
  static bool times_cpu(const Prediction& call) noexcept;
  /// The CPU has finished one.
  void cpu_took(const Prediction& call, Clock::time_point begun) noexcept;

 private:
  using Factor = std::atomic<double>;
  // All on two lines of the cache: whoever compares reads most of it, and each call writes it.
  alignas(64) std::array<Factor, kinds> factors_{Factor(1), Factor(1), Factor(1)};
  std::array<Factor, kinds> cpu_factors_{Factor(1), Factor(1), Factor(1)};
  std::atomic<std::int64_t> next_probe_ns_{0};
  std::atomic<unsigned> calls_{0};  ///< that could have been probes, since one could be
  std::atomic<unsigned> gap_{first_gap};
  Now now_;
};

/// Of this process.
DeviceLoad& device_load() noexcept;

}  // namespace ec::codec
