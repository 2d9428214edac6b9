// How long calls on pinned chunks took lately, on the device and on the CPU, and the choice by these times.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace ec::codec {

/// A moving average of nanoseconds a byte, for the device and for the CPU, of each class of sizes. Learned
/// from calls that went there anyway, and from probes: rare calls that are given to the slower side.
/// Processes that share a GPU see each other in no other way. Thread safe, no locks: a race loses an
/// observation. Lies in memory of this process alone, since it decides who codes.
class CallTimes {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  /// Bytes of all chunks of a call, read and written. With fewer bytes the CPU has ended before a device has
  /// begun. Class i begins at least_bytes << i, the last class has no end.
  static constexpr std::uint64_t least_bytes = std::uint64_t{256} << 10;
  static constexpr std::size_t classes = 8;
  /// The device gets the calls that it should finish in less than this part of the CPU's time. Where both are
  /// about as fast, many processes would come to the device again and again, and each time find it busy with
  /// the other processes. With 0.75, 8+3 in chunks of 128 and 256 KiB had 0.65 to 0.69 of an H100's speed in
  /// 3 of 10 cases.
  static constexpr double clear_gain = 0.9;
  /// A call counts as at most so many times longer or shorter than the average, and moves the average one
  /// part in so many towards it: a thread that was interrupted is no busy device.
  static constexpr double most_news = 4, parts = 4, probe_parts = 2;
  /// Of the CPU's calls one in so many is timed. Odd, as the gaps are: callers often do things in turns of
  /// two, four or eight.
  static constexpr unsigned cpu_sample = 5;
  /// Calls from one probe to the next: the first comes soon, since a few slow calls may have been chance;
  /// each further one after eight times as many, so that in a hundred calls there is none on average.
  static constexpr unsigned first_gap = 7, longest_gap = 511;
  /// Calls of a probe. The first one finds cold caches where its side has had no calls, and counts only if it
  /// is clearly better all the same; the last one moves the average one part in probe_parts. The call after
  /// them, back on the better side, is cold too and does not count. By single calls an H100 that takes 24 us
  /// was left to a core that takes 30, and 24 to 33: 0.79 and 0.75 of its speed.
  static constexpr unsigned probe_calls = 2;
  /// After a probe that took t longer than the other side would have, the next waits so many times t.
  static constexpr int quiet = 128;

  /// now: for tests.
  constexpr explicit CallTimes(Now now = &Clock::now) noexcept : now_(now) {}

  enum class Probe : unsigned char { none, first, last };
  /// A call, and the side that gets it.
  struct Choice {
    std::uint64_t bytes = 0;
    unsigned jobs = 0;  ///< of the device, when the call was given away
    bool device = false;
    Probe probe = Probe::none;
    bool timed = false;  ///< its end is to be reported to took()
  };
  /// bytes: at least least_bytes. jobs: the device's jobs now, which share the link evenly. by_size: whether
  /// the device gets the call as long as only one side's time is known.
  Choice choose(std::uint64_t bytes, unsigned jobs, bool by_size) noexcept {
    Class& of = class_of(bytes);
    const double device = of.device.load(relaxed), cpu = of.cpu.load(relaxed);
    const bool known = device > 0 && cpu > 0;
    const auto with = [&](unsigned others) {
      return known ? prefers_device(device * (1 + others), cpu) : by_size;
    };
    const bool alone = with(0);
    if (of.by_device.load(relaxed) != alone) {
      of.by_device.store(alone, relaxed);
      of.gap.store(first_gap, relaxed);
      of.calls.store(0, relaxed);
      of.probes_left.store(0, relaxed);
    }
    Choice call{.bytes = bytes, .jobs = jobs, .device = jobs == 0 ? alone : with(jobs)};
    // If the reason is the device's calls in flight, both sides are learned from anyway.
    const unsigned number = of.calls.fetch_add(1, relaxed) + 1;
    if (call.device == alone) {
      if (number >= of.gap.load(relaxed)) {
        const double lost = known ? (alone ? cpu - device : device - cpu) : 0;
        if (claim_probe(of, lost * static_cast<double>(bytes)))
          of.probes_left.store(probe_calls + 1, relaxed);
      }
      unsigned left = of.probes_left.load(relaxed);
      if (left != 0 && of.probes_left.compare_exchange_strong(left, left - 1, relaxed)) {
        if (left == 1) return call;  // cold, back from the probe: not timed
        call.probe = left == 2 ? Probe::last : Probe::first;
        call.device = !call.device;
      }
    }
    call.timed = call.device || call.probe != Probe::none || number % cpu_sample == 0;
    return call;
  }

  Clock::time_point now() const noexcept { return now_(); }
  /// Reports that a call which began at `begun` is finished, on the chosen side. jobs: the device's other
  /// jobs now. Threads that begin together find 0, 1, 2 .. jobs before them, and all take as long as the last
  /// one: by the jobs at the begin alone, eight such threads left an H200 to cores that took five times as
  /// long.
  void took(const Choice& call, Clock::time_point begun, unsigned jobs) noexcept {
    const Clock::time_point end = now();
    Class& of = class_of(call.bytes);
    const auto bytes = static_cast<double>(call.bytes);
    const double took = static_cast<double>(std::max<std::int64_t>(ns(end) - ns(begun), 1)) / bytes;
    const double seen = call.device ? took / (1 + (call.jobs + jobs) / 2.0) : took;
    Average& average = call.device ? of.device : of.cpu;
    const double before = average.load(relaxed);
    const double other = (call.device ? of.cpu : of.device).load(relaxed);
    // A probe that was clearly better is believed at once.
    const bool is_back =
        call.probe == Probe::first && other > 0 &&
        prefers_device(call.device ? seen : other, call.device ? other : seen) == call.device;
    if (call.probe == Probe::first && !is_back) return;
    const double news = std::clamp(seen, before / most_news, before * most_news);
    const double after = before == 0 || is_back
                             ? seen
                             : before + (news - before) / (call.probe == Probe::last ? probe_parts : parts);
    // Threads share the line, so an average that hardly changes is not written.
    if (std::abs(after - before) > before / 64) average.store(after, relaxed);
    if (call.probe == Probe::last && other > 0)
      of.next_probe_ns.store(ns(end) + quiet_ns(probe_calls * (took - other) * bytes), relaxed);
  }

 private:
  static constexpr auto relaxed = std::memory_order_relaxed;
  using Average = std::atomic<double>;  ///< 0: not known
  struct alignas(64) Class {
    Average device{0}, cpu{0};
    std::atomic<std::int64_t> next_probe_ns{0};
    std::atomic<unsigned> calls{0};  ///< since the last probe
    std::atomic<unsigned> gap{first_gap};
    std::atomic<unsigned> probes_left{0};
    std::atomic<bool> by_device{false};  ///< the side that had the calls
  };
  static bool prefers_device(double device, double cpu) noexcept { return device < clear_gain * cpu; }
  static std::int64_t ns(Clock::time_point time) noexcept {
    return std::chrono::nanoseconds(time.time_since_epoch()).count();
  }
  /// The pause after a probe that took so much longer than the other side would.
  static std::int64_t quiet_ns(double lost_ns) noexcept {
    constexpr double most = 1e18;
    return static_cast<std::int64_t>(std::clamp(quiet * lost_ns, 0.0, most));
  }
  Class& class_of(std::uint64_t bytes) noexcept {
    const auto at = static_cast<std::size_t>(std::bit_width(bytes / least_bytes));
    return classes_[std::clamp<std::size_t>(at, 1, classes) - 1];
  }
  bool claim_probe(Class& of, double lost_ns) noexcept {
    of.gap.store(std::min(8 * of.gap.load(relaxed) + 7, longest_gap), relaxed);
    of.calls.store(0, relaxed);
    const std::int64_t now_ns = ns(now());
    std::int64_t due = of.next_probe_ns.load(relaxed);
    // Until this probe reports its time, the next one is as far away as the averages say.
    return now_ns >= due &&
           of.next_probe_ns.compare_exchange_strong(due, now_ns + quiet_ns(lost_ns), relaxed);
  }

  std::array<Class, classes> classes_{};
  Now now_;
};

/// The times of this process.
inline constinit CallTimes call_times;

}  // namespace ec::codec
