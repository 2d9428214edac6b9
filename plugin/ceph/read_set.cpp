// Chooses the chunks to read: any k suffice.
#include "plugin/ceph/read_set.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace ec::ceph {

using gf::ChunkSet;

std::optional<ChunkSet> choose_read(unsigned k, const ChunkSet& wanted, std::span<Offer> there, bool lowest) {
  const auto rank = [&](const Offer& o) {
    return std::tuple(o.cost, !lowest && !wanted.contains(o.chunk), o.chunk);
  };
  std::ranges::sort(there, {}, rank);
  ChunkSet available, cheapest;
  std::int64_t wanted_cost = 0, cheapest_cost = 0;
  for (std::size_t i = 0; i < there.size(); ++i) {
    const auto& [chunk, cost] = there[i];
    available.insert(chunk);
    if (wanted.contains(chunk)) wanted_cost += cost;
    if (i >= k) continue;
    cheapest.insert(chunk);
    cheapest_cost += cost;
  }
  const bool enough = there.size() >= k;
  if (available.includes(wanted) && (!enough || wanted_cost <= cheapest_cost)) return wanted;
  if (!enough) return std::nullopt;
  return cheapest;
}

}  // namespace ec::ceph
