// What calls on the device took against the predictions, and when a call is sent there to see whether that
// still holds.
#include "plugin/codec/routing/device_load.hpp"

#include <algorithm>
#include <cmath>

namespace ec::codec {
namespace {

constinit DeviceLoad of_process;

std::int64_t ns(DeviceLoad::Clock::time_point time) noexcept {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

double us_between(DeviceLoad::Clock::time_point begun, DeviceLoad::Clock::time_point end) noexcept {
  return std::chrono::duration<double, std::micro>(end - begun).count();
}

/// For a call that took, or is expected to take, so much longer than the CPU.
std::int64_t quiet_ns(double lost_us) noexcept {
  return static_cast<std::int64_t>(1e3 * DeviceLoad::quiet * std::max(lost_us, 0.0));
}

}  // namespace

bool DeviceLoad::claim_probe(const Prediction& call) noexcept {
  const unsigned gap = gap_.load(std::memory_order_relaxed);
  if (calls_.fetch_add(1, std::memory_order_relaxed) + 1 < gap) return false;
  gap_.store(std::min(2 * gap + 1, calls_a_probe), std::memory_order_relaxed);
  calls_.store(0, std::memory_order_relaxed);
  const std::int64_t now_ns = ns(now());
  std::int64_t due = next_probe_ns_.load(std::memory_order_relaxed);
  // Until this one tells what it took, the next is as far away as the factor says.
  const double lost_us = factor(call.kind) * call.device_us - call.cpu_us;
  return now_ns >= due &&
         next_probe_ns_.compare_exchange_strong(due, now_ns + quiet_ns(lost_us), std::memory_order_relaxed);
}

void DeviceLoad::took(const Prediction& call, Clock::time_point begun) noexcept {
  if (!(call.device_us > 0)) return;
  const Clock::time_point end = now();
  const double us = us_between(begun, end);
  Factor& factor = factors_[static_cast<std::size_t>(call.kind)];
  const double before = factor.load(std::memory_order_relaxed);
  const double news = std::clamp(us / call.device_us / before, 1 / most_news, most_news);
  const bool is_back = call.probe && us < clear_gain * call.cpu_us;
  const double now_seen = is_back ? us / call.device_us : before * std::sqrt(news);
  factor.store(std::clamp(now_seen, lowest, highest), std::memory_order_relaxed);

  if (call.probe) next_probe_ns_.store(ns(end) + quiet_ns(us - call.cpu_us), std::memory_order_relaxed);
  if ((is_back || !call.probe) && gap_.load(std::memory_order_relaxed) != first_gap) {
    calls_.store(0, std::memory_order_relaxed);
    gap_.store(first_gap, std::memory_order_relaxed);
  }
  Factor& cpu = cpu_factors_[static_cast<std::size_t>(call.kind)];
  const double cpu_before = cpu.load(std::memory_order_relaxed);
  cpu.store(cpu_before + (1 - cpu_before) / cpu_parts_unseen, std::memory_order_relaxed);
}

bool DeviceLoad::times_cpu(const Prediction& call) noexcept {
  thread_local unsigned small_calls = 0;
  return call.kind != Kind::small || small_calls++ % cpu_sample == 0;
}

void DeviceLoad::cpu_took(const Prediction& call, Clock::time_point begun) noexcept {
  if (!(call.cpu_table_us > 0)) return;
  Factor& factor = cpu_factors_[static_cast<std::size_t>(call.kind)];
  const double before = factor.load(std::memory_order_relaxed);
  const double news =
      std::clamp(us_between(begun, now()) / call.cpu_table_us / before, 1 / most_news, most_news);
  const double seen = std::clamp(before * (1 + (news - 1) / cpu_parts), lowest, highest);
  // Threads share the line, so what is hardly news is not written.
  if (std::abs(seen - before) > before / 64) factor.store(seen, std::memory_order_relaxed);
}

DeviceLoad& device_load() noexcept { return of_process; }

}  // namespace ec::codec
