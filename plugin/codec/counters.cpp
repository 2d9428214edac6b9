#include "plugin/codec/counters.hpp"

#include "kernels/backends.hpp"

namespace ec::codec {

BackendCounts Counters::read(std::size_t backend) const noexcept {
  BackendCounts sum;
  for (const auto& shard : shards_) {
    sum.calls += shard[backend].calls.load(std::memory_order_relaxed);
    sum.source_bytes += shard[backend].source_bytes.load(std::memory_order_relaxed);
    sum.fallbacks += shard[backend].fallbacks.load(std::memory_order_relaxed);
  }
  return sum;
}

unsigned Counters::next_shard() noexcept {
  static std::atomic<unsigned> next{0};
  return next.fetch_add(1, std::memory_order_relaxed) % shards;
}

Counters& counters() noexcept {
  static Counters instance;
  return instance;
}

BackendCounts counts_of(std::string_view backend) noexcept {
  const auto list = kernels::backends();
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i]->name() == backend) return counters().read(i);
  return {};
}

}  // namespace ec::codec
