// A bounded LRU cache keyed by erasure signature, for decode plans and what is made of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "gf/chunk_set.hpp"

namespace ec::gf {

/// Thread safe. Entries are shared and immutable, so an evicted one lives on in the hands that hold it.
/// Keys are spread over shards; a hit takes one shard's lock in shared mode and stamps the entry,
/// so readers never wait for each other. Each shard evicts its least recently stamped entry.
template <class Value>
class SignatureCache {
 public:
  using Pointer = std::shared_ptr<const Value>;

  /// capacity: entries in all, rounded up to a multiple of the shards.
  explicit SignatureCache(std::size_t capacity) : shard_capacity_((capacity + shards - 1) / shards) {}

  /// The entry, or null.
  Pointer find(const ErasureSignature& key) {
    Shard& shard = shard_of(key);
    std::shared_lock lock(shard.mutex);
    const auto at = shard.entries.find(key);
    if (at == shard.entries.end()) return nullptr;
    at->second.stamp.store(shard.clock.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
    return at->second.value;
  }

  /// Stores `value` unless another thread was first; returns what the cache holds now.
  Pointer insert(const ErasureSignature& key, Pointer value) {
    Shard& shard = shard_of(key);
    std::unique_lock lock(shard.mutex);
    if (const auto at = shard.entries.find(key); at != shard.entries.end()) return at->second.value;
    if (shard.entries.size() >= shard_capacity_) evict_oldest(shard);
    Entry& entry = shard.entries[key];
    entry.value = std::move(value);
    entry.stamp.store(shard.clock.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
    return entry.value;
  }

  std::size_t size() const {
    std::size_t n = 0;
    for (const Shard& shard : shards_) {
      std::shared_lock lock(shard.mutex);
      n += shard.entries.size();
    }
    return n;
  }
  std::size_t capacity() const { return shard_capacity_ * shards; }

 private:
  static constexpr std::size_t shards = 16;

  struct Entry {
    Pointer value;
    std::atomic<std::uint64_t> stamp{0};
  };
  struct Hash {
    std::size_t operator()(const ErasureSignature& s) const { return s.hash(); }
  };
  struct alignas(64) Shard {
    mutable std::shared_mutex mutex;
    std::atomic<std::uint64_t> clock{0};
    std::unordered_map<ErasureSignature, Entry, Hash> entries;
  };

  // The map uses the low bits of the hash; the shard is picked by high ones.
  Shard& shard_of(const ErasureSignature& key) { return shards_[(key.hash() >> 20) % shards]; }

  // Linear in one shard; runs only on a miss in a full shard, which has just paid for a solve.
  static void evict_oldest(Shard& shard) {
    auto oldest = shard.entries.begin();
    for (auto at = shard.entries.begin(); at != shard.entries.end(); ++at)
      if (at->second.stamp.load(std::memory_order_relaxed) <
          oldest->second.stamp.load(std::memory_order_relaxed))
        oldest = at;
    if (oldest != shard.entries.end()) shard.entries.erase(oldest);
  }

  std::size_t shard_capacity_;
  std::array<Shard, shards> shards_;
};

}  // namespace ec::gf
