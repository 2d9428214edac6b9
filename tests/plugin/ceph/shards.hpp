// Ceph 20's sets and maps of shards, filled and read as its daemons do.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "ceph/tentacle.h"

namespace ec::test {

using ::ceph::bufferlist;
using ::ceph::bufferptr;
using ::ceph::tentacle::BufferMap;
using ::ceph::tentacle::ListMap;
using ::ceph::tentacle::ShardIdMap;
using ::ceph::tentacle::ShardIdSet;
using ::ceph::tentacle::SubChunks;
using Shards = std::set<int>;

inline void fill(ShardIdSet& set, const Shards& shards) {
  for (int s : shards) set.words[static_cast<unsigned>(s) / 64] |= std::uint64_t{1} << (s % 64);
}

inline Shards shards_of(const ShardIdSet& set) {
  Shards shards;
  for (int s = 0; s < 128; ++s)
    if ((set.words[static_cast<unsigned>(s) / 64] >> (s % 64) & 1) != 0) shards.insert(s);
  return shards;
}

template <class T>
void insert(ShardIdMap<T>& map, int shard, T value) {
  map.slots.at(static_cast<std::size_t>(shard)).emplace(std::move(value));
  ++map.entries;
}

template <class T>
T& at(ShardIdMap<T>& map, int shard) {
  return map.slots.at(static_cast<std::size_t>(shard)).value();
}

inline std::string text(const bufferptr& buffer) {
  return buffer.length() == 0 ? "" : std::string(buffer.c_str(), buffer.length());
}

/// A copy that begins `offset` bytes after an aligned address.
inline bufferptr buffer_of(const std::string& bytes, unsigned offset = 0) {
  const auto length = static_cast<unsigned>(bytes.size());
  bufferptr buffer(::ceph::buffer::create_aligned(length + offset, 4096));
  bytes.copy(buffer.c_str() + offset, length);
  return {buffer, offset, length};
}

}  // namespace ec::test
