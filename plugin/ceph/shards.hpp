// How the host's sets and maps of shards are walked and filled, in either dialect.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <set>

#include "ceph/tentacle.h"

namespace ec::ceph {

using ::ceph::bufferlist;
using ::ceph::tentacle::ShardIdMap;
using ::ceph::tentacle::ShardIdSet;
using ::ceph::tentacle::SubChunks;

/// visit(shard) for each of a set, visit(shard, value) for each of a map, in ascending order.
template <class Visit>
void each_shard(const std::set<int>& shards, Visit visit) {
  for (int shard : shards) visit(shard);
}
template <class T, class Visit>
void each_shard(const std::map<int, T>& shards, Visit visit) {
  for (const auto& [shard, value] : shards) visit(shard, value);
}
template <class Visit>
void each_shard(const ShardIdSet& shards, Visit visit) {
  for (unsigned w = 0; w < shards.words.size(); ++w)
    for (std::uint64_t word = shards.words[w]; word != 0; word &= word - 1)
      visit(static_cast<int>(64 * w) + std::countr_zero(word));
}
template <class Map, class Visit>
requires requires(Map& map) { map.slots; }
void each_shard(Map& shards, Visit visit) {
  int shard = 0;
  for (auto& slot : shards.slots) {
    if (slot) visit(shard, *slot);
    ++shard;
  }
}

/// Whether the host's container exists, has the layout that we know, and has room for the shards 0..n-1.
template <class Container>
bool is_usable(const Container* container, unsigned) {
  return container != nullptr;
}
inline bool is_usable(const ShardIdSet* set, unsigned) { return set != nullptr && set->end_of == set; }
template <class T>
bool is_usable(const ShardIdMap<T>* map, unsigned n) {
  return map != nullptr && map->end.of == map && map->const_end.of == map && map->slots.size() >= n;
}

/// Whether a set is all of 0..n-1, by a quick look that may miss it.
inline bool is_all(const std::set<int>& shards, unsigned n) {
  return shards.size() == n && *shards.begin() >= 0 && *shards.rbegin() < static_cast<int>(n);
}
template <class Shards>
bool is_all(const Shards&, unsigned) {
  return false;
}

inline void put(std::set<int>& set, int shard) { set.insert(shard); }
inline void put(ShardIdSet& set, int shard) {
  set.words[static_cast<unsigned>(shard) / 64] |= std::uint64_t{1} << (shard % 64);
}

/// The entry of `shard`, made if it is absent.
template <class T>
T& entry(std::map<int, T>& map, int shard) {
  // In ascending order when there is no chunk mapping.
  return map.try_emplace(map.end(), shard)->second;
}
template <class T>
T& entry(ShardIdMap<T>& map, int shard) {
  auto& slot = map.slots[static_cast<std::size_t>(shard)];
  if (!slot) {
    slot.emplace();
    ++map.entries;
  }
  return *slot;
}

template <class T>
void clear(std::map<int, T>& map) {
  map.clear();
}
template <class T>
void clear(ShardIdMap<T>& map) {
  for (auto& slot : map.slots) slot.reset();
  map.entries = 0;
}

/// A chunk has one sub-chunk: the whole chunk.
template <class Map>
void put(Map& map, int shard) {
  entry(map, shard) = {{0, 1}};
}

/// The list for `shard`, empty.
template <class Map>
bufferlist& place(Map& map, int shard) {
  bufferlist& list = entry(map, shard);
  if (list.get_num_buffers() != 0) list.clear();  // a list with room reserved has an empty buffer
  return list;
}

}  // namespace ec::ceph
