// A bounded cache keyed by erasure signature, for decode plans and what is made of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gf/chunk_set.hpp"

namespace ec::gf {

/// Thread safe. Entries are shared and immutable, so an evicted one lives on in the hands that hold it.
/// Keys are spread over shards; a hit takes one shard's lock in shared mode and marks the entry, so readers
/// never wait for each other. A full shard gives a second chance: its hand goes round the entries, takes the
/// mark from those that were found since it last came by, and evicts the first one without. That keeps what
/// is in use nearly as well as an order by time, and a miss looks at a few entries instead of all.
template <class Value>
class SignatureCache {
 public:
  using Pointer = std::shared_ptr<const Value>;

  /// capacity: entries in all, rounded up to a multiple of the shards.
  explicit SignatureCache(std::size_t capacity) : shard_capacity_((capacity + shards - 1) / shards) {}

  /// The entry, or null.
  Pointer find(const ErasureSignature& signature) {
    const Key key(signature);
    Shard& shard = shard_of(key);
    std::shared_lock lock(shard.mutex);
    const auto at = shard.entries.find(key);
    if (at == shard.entries.end()) return nullptr;
    // Written only where it changes, or the line would travel between the cores that read it.
    std::atomic<bool>& found = at->second.found;
    if (!found.load(std::memory_order_relaxed)) found.store(true, std::memory_order_relaxed);
    return at->second.value;
  }

  /// Stores `value` unless another thread was first; returns what the cache holds now.
  Pointer insert(const ErasureSignature& signature, Pointer value) {
    const Key key(signature);
    Shard& shard = shard_of(key);
    Pointer evicted;  // before the lock, and so destroyed after it is given back
    std::unique_lock lock(shard.mutex);
    if (const auto at = shard.entries.find(key); at != shard.entries.end()) return at->second.value;
    if (shard.ring.size() == shard_capacity_) {
      auto node = evict(shard);
      node.key() = key;
      evicted = std::exchange(node.mapped().value, value);
      shard.ring[shard.hand] = &*shard.entries.insert(std::move(node)).position;
      shard.hand = (shard.hand + 1) % shard_capacity_;
    } else {
      shard.ring.reserve(shard_capacity_);
      const auto at = shard.entries.try_emplace(key).first;
      at->second.value = value;
      shard.ring.push_back(&*at);
    }
    return value;
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

  /// A signature with its hash, which every use of it asks for several times.
  struct Key {
    explicit Key(const ErasureSignature& s) : signature(s), hash(s.hash()) {}
    friend bool operator==(const Key& a, const Key& b) { return a.signature == b.signature; }
    ErasureSignature signature;
    std::size_t hash;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept { return key.hash; }
  };
  struct Entry {
    Pointer value;
    std::atomic<bool> found{false};
  };
  using Entries = std::unordered_map<Key, Entry, Hash>;
  struct alignas(64) Shard {
    mutable std::shared_mutex mutex;
    Entries entries;
    std::vector<typename Entries::value_type*> ring;  ///< the entries in the order they came
    std::size_t hand = 0;                             ///< in the ring: the entry that is looked at next
  };

  // The map uses the low bits of the hash; the shard is picked by high ones.
  Shard& shard_of(const Key& key) { return shards_[(key.hash >> 20) % shards]; }

  /// Takes the entry under the hand out of the map, after those before it lost their marks.
  typename Entries::node_type evict(Shard& shard) {
    while (shard.ring[shard.hand]->second.found.exchange(false, std::memory_order_relaxed))
      shard.hand = (shard.hand + 1) % shard_capacity_;
    return shard.entries.extract(shard.ring[shard.hand]->first);
  }

  std::size_t shard_capacity_;
  std::array<Shard, shards> shards_;
};

}  // namespace ec::gf
