#include "plugin/codec/stats/counters.hpp"

#include <algorithm>
#include <atomic>
#include <bit>

#include "kernels/backends.hpp"
#include "plugin/codec/stats/metrics.hpp"
#include "plugin/codec/stats/stats_region.hpp"

namespace ec::codec {
namespace {

using kernels::read;

template <std::size_t n>
void add(std::array<std::uint64_t, n>& to, const std::array<std::uint64_t, n>& from) noexcept {
  for (std::size_t i = 0; i < n; ++i) to[i] += read(from[i]);
}

void add(Durations& to, const Durations& from) noexcept {
  to.nanoseconds += read(from.nanoseconds);
  add(to.jobs, from.jobs);
}

std::size_t bucket_of(std::uint64_t nanoseconds) noexcept {
  constexpr std::uint64_t least = Durations::bound(0);
  const std::uint64_t times = (nanoseconds + least - 1) / least;
  const int bucket = times <= 1 ? 0 : std::bit_width(times - 1);
  return std::min<std::size_t>(static_cast<std::size_t>(bucket), Durations::buckets - 1);
}

}  // namespace

Row sum(const StatsPage& page, std::size_t backend, Operation operation) noexcept {
  Row total;
  for (const Shard& shard : page.shards) {
    const Row& row = shard.rows[backend][static_cast<std::size_t>(operation)];
    total.calls += read(row.calls);
    total.source_bytes += read(row.source_bytes);
    add(total.fallbacks, row.fallbacks);
    add(total.small, row.small);
    add(total.large, row.large);
  }
  return total;
}

std::uint64_t sum(const StatsPage& page, Event event) noexcept {
  std::uint64_t total = 0;
  for (const Shard& shard : page.shards) total += read(shard.events[static_cast<std::size_t>(event)]);
  return total;
}

void Counters::Job::took_time(Row& row, std::uint64_t source_bytes, Clock::time_point begun) noexcept {
  const auto now = Clock::now();
  const auto ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(now - begun).count());
  Durations& durations = source_bytes < timed_from_bytes ? row.small : row.large;
  kernels::add(durations.nanoseconds, ns);
  kernels::add(durations.jobs[bucket_of(ns)], 1);
  look_after_metrics(now);
}

BackendCounts Counters::read(std::size_t backend) const noexcept {
  using enum kernels::Status;
  BackendCounts all;
  for (const auto operation : {Operation::encode, Operation::decode, Operation::update}) {
    const Row row = sum(page_, backend, operation);
    all.calls += row.calls;
    all.source_bytes += row.source_bytes;
    for (const auto cause : {busy, fault, hung}) all.fallbacks += row.fallbacks[cause_of(cause)];
  }
  return all;
}

unsigned Counters::next_shard() noexcept {
  static std::atomic<unsigned> next{0};
  return next.fetch_add(1, std::memory_order_relaxed) % shards;
}

Counters& counters() noexcept {
  static Counters& instance = *publish_counters();
  return instance;
}

BackendCounts counts_of(std::string_view backend) noexcept {
  const auto list = kernels::backends();
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i]->name() == backend) return counters().read(i);
  return {};
}

}  // namespace ec::codec
