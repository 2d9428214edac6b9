// Counting, and the counters of the process: see counters.hpp.
#include "plugin/codec/stats/counters.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <bit>

#include "kernels/backends.hpp"
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

/// The state of libec_cuda_pinned.so, where it is there, once a second.
void look_at_arena(StatsPage& page, Counters::Clock::time_point now) noexcept {
  static std::atomic<std::int64_t> looked_at{-1};
  const auto second = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  std::int64_t last = looked_at.load(std::memory_order_relaxed);
  if (last == second || !looked_at.compare_exchange_strong(last, second, std::memory_order_relaxed)) return;
  const auto ask =
      reinterpret_cast<ec_cuda_pinned_statistics_function*>(dlsym(RTLD_DEFAULT, "ec_cuda_pinned_statistics"));
  if (ask == nullptr) return;
  ec_cuda_pinned_stats seen{};
  ask(&seen);
  for (const auto field : {&ec_cuda_pinned_stats::arena_bytes, &ec_cuda_pinned_stats::used_bytes,
                           &ec_cuda_pinned_stats::peak_bytes, &ec_cuda_pinned_stats::allocated,
                           &ec_cuda_pinned_stats::released, &ec_cuda_pinned_stats::refused})
    kernels::set(page.arena.*field, seen.*field);
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
  look_at_arena(counters().page(), now);
}

BackendCounts Counters::read(std::size_t backend) const noexcept {
  using enum kernels::Status;
  BackendCounts all;
  for (const auto operation : {Operation::encode, Operation::decode, Operation::update}) {
    const Row row = sum(page(), backend, operation);
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

/// Never destroyed: threads of the host may still code while static objects go.
struct Counters::OfProcess {
  union {
    Counters counts;
  };
  StatsRegion region;
  constexpr OfProcess() noexcept : counts(nullptr) {}
  ~OfProcess() {}
  static OfProcess it;
  static void become_child() noexcept {
    if (it.region.page() == nullptr) return;
    it.region.make_anew();
    it.counts.on_device_ = 0;
  }
};
constinit Counters::OfProcess Counters::OfProcess::it;

void Counters::publish() noexcept {
  static_cast<void>(pthread_atfork(nullptr, nullptr, OfProcess::become_child));
  // No lock: a child of fork() would inherit it locked.
  StatsRegion made;
  made.make();
  StatsPage* none = nullptr;
  if (!page_.compare_exchange_strong(none, made.page(), std::memory_order_acq_rel)) return made.discard();
  OfProcess::it.region = made;
  kernels::keep_device_stats_in(made.page()->device);
}

Counters& counters() noexcept {
  Counters& counts = Counters::OfProcess::it.counts;
  if (counts.page_.load(std::memory_order_acquire) == nullptr) [[unlikely]]
    counts.publish();
  return counts;
}

BackendCounts counts_of(std::string_view backend) noexcept {
  const auto list = kernels::backends();
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i]->name() == backend) return counters().read(i);
  return {};
}

}  // namespace ec::codec
