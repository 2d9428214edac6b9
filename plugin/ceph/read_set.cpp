// Chooses the chunks to read: any k suffice.
#include "plugin/ceph/read_set.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace ec::ceph {

using gf::ChunkSet;

std::optional<ChunkSet> smallest_read(unsigned k, const ChunkSet& wanted, const ChunkSet& available) {
  if (available.includes(wanted)) return wanted;
  if (available.count() < k) return std::nullopt;
  ChunkSet read;
  unsigned picked = 0;
  for (const ChunkSet& candidates : {wanted & available, available - wanted})
    for (unsigned c : candidates) {
      if (picked == k) return read;
      read.insert(c);
      ++picked;
    }
  return read;
}

std::optional<ChunkSet> lowest_read(unsigned k, const ChunkSet& wanted, const ChunkSet& available) {
  if (available.includes(wanted)) return wanted;
  if (available.count() < k) return std::nullopt;
  ChunkSet read;
  unsigned picked = 0;
  for (unsigned c : available) {
    if (picked++ == k) break;
    read.insert(c);
  }
  return read;
}

std::optional<ChunkSet> cheapest_read(unsigned k, const ChunkSet& wanted,
                                      const std::map<unsigned, int>& costs) {
  ChunkSet available;
  std::vector<std::pair<int, unsigned>> by_cost;
  for (const auto& [chunk, cost] : costs) {
    available.insert(chunk);
    by_cost.emplace_back(cost, chunk);
  }
  const bool direct = available.includes(wanted);
  std::int64_t direct_cost = 0;
  if (direct)
    for (unsigned c : wanted) direct_cost += costs.at(c);

  if (by_cost.size() >= k) {
    std::ranges::sort(by_cost);
    ChunkSet cheapest;
    std::int64_t cost = 0;
    for (unsigned i = 0; i < k; ++i) {
      cheapest.insert(by_cost[i].second);
      cost += by_cost[i].first;
    }
    if (!direct || cost < direct_cost) return cheapest;
  }
  if (direct) return wanted;
  return std::nullopt;
}

}  // namespace ec::ceph
