// Averages, and the probes that keep them true.
#include "plugin/codec/routing/call_times.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ec::codec {
namespace {

constinit CallTimes times_of_process;

constexpr auto relaxed = std::memory_order_relaxed;

std::int64_t ns(CallTimes::Clock::time_point time) noexcept {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

/// The pause after a probe that took so much longer than the other side would.
std::int64_t quiet_ns(double lost_ns) noexcept {
  constexpr double most = 1e18;
  return static_cast<std::int64_t>(std::clamp(CallTimes::quiet * lost_ns, 0.0, most));
}

}  // namespace

CallTimes::Class& CallTimes::class_of(std::uint64_t bytes) noexcept {
  const auto at = static_cast<std::size_t>(std::bit_width(bytes / least_bytes));
  return classes_[std::clamp<std::size_t>(at, 1, classes) - 1];
}

CallTimes::Choice CallTimes::choose(std::uint64_t bytes, unsigned jobs, bool by_size) noexcept {
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
      if (claim_probe(of, lost * static_cast<double>(bytes))) of.probes_left.store(probe_calls + 1, relaxed);
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

bool CallTimes::claim_probe(Class& of, double lost_ns) noexcept {
  of.gap.store(std::min(8 * of.gap.load(relaxed) + 7, longest_gap), relaxed);
  of.calls.store(0, relaxed);
  const std::int64_t now_ns = ns(now());
  std::int64_t due = of.next_probe_ns.load(relaxed);
  // Until this probe reports its time, the next one is as far away as the averages say.
  return now_ns >= due && of.next_probe_ns.compare_exchange_strong(due, now_ns + quiet_ns(lost_ns), relaxed);
}

void CallTimes::took(const Choice& call, Clock::time_point begun) noexcept {
  const Clock::time_point end = now();
  Class& of = class_of(call.bytes);
  const auto bytes = static_cast<double>(call.bytes);
  const double took = static_cast<double>(std::max<std::int64_t>(ns(end) - ns(begun), 1)) / bytes;
  const double seen = call.device ? took / (1 + call.jobs) : took;
  Average& average = call.device ? of.device : of.cpu;
  const double before = average.load(relaxed);
  const double other = (call.device ? of.cpu : of.device).load(relaxed);
  // A probe that was clearly better is believed at once.
  const bool is_back = call.probe == Probe::first && other > 0 &&
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

CallTimes& call_times() noexcept { return times_of_process; }

}  // namespace ec::codec
