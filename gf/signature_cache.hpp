// A bounded cache keyed by erasure signature, for decode plans and the programs made of them.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "gf/chunk_set.hpp"

namespace ec::gf {

/// Thread safe. Entries are shared and immutable, so an evicted entry lives as long as a caller holds it.
/// Keys are spread over shards; a hit takes one shard's lock in shared mode and counts one owner more, so
/// readers of other shards are not hindered. Nobody waits for a lock: a thread that the child of a fork()
/// does not have may hold it. A full shard evicts its oldest entry.
template <class Value>
class SignatureCache {
 public:
  using Pointer = std::shared_ptr<const Value>;

  /// capacity: entries in all, rounded up to a multiple of the shards.
  explicit SignatureCache(std::size_t capacity) : shard_capacity_((capacity + shards - 1) / shards) {}

  /// The entry; null if there is none, or a thread stores one in its shard.
  Pointer find(const ErasureSignature& signature) {
    const std::size_t hash = signature.hash();
    Shard& shard = shard_of(hash);
    const std::shared_lock lock(shard.mutex, std::try_to_lock);
    if (!lock) return nullptr;
    const Entry* entry = shard.find(signature, tag_of(hash));
    return entry == nullptr ? nullptr : entry->value;
  }

  /// Stores `value`, unless an entry is there, which is returned then, or its shard is in use.
  Pointer insert(const ErasureSignature& signature, Pointer value) {
    const std::size_t hash = signature.hash();
    Shard& shard = shard_of(hash);
    Pointer evicted;  // declared before the lock, and so destroyed after the lock is given back
    const std::unique_lock lock(shard.mutex, std::try_to_lock);
    if (!lock) return value;
    if (const Entry* there = shard.find(signature, tag_of(hash))) return there->value;
    const std::size_t place = shard.oldest;
    if (shard.entries.size() < shard_capacity_) {
      shard.tags.reserve(shard_capacity_);
      shard.entries.emplace_back();
      shard.tags.emplace_back();
    }
    shard.oldest = (place + 1) % shard_capacity_;
    shard.tags[place] = tag_of(hash);
    shard.entries[place].signature = signature;
    evicted = std::exchange(shard.entries[place].value, value);
    return value;
  }

 private:
  static constexpr std::size_t shards = 16;

  struct Entry {
    ErasureSignature signature;
    Pointer value;
  };
  /// Entries in the order they came, found by a search for a byte of their hash: a shard has so few entries
  /// that its tags fill a few cache lines, and most often the tags alone show that a signature is new.
  struct alignas(64) Shard {
    Entry* find(const ErasureSignature& signature, std::uint8_t tag) {
      for (std::size_t at = 0; at < tags.size(); ++at) {
        const void* same = std::memchr(tags.data() + at, tag, tags.size() - at);
        if (same == nullptr) return nullptr;
        at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(same) - tags.data());
        if (entries[at].signature == signature) return &entries[at];
      }
      return nullptr;
    }

    std::shared_mutex mutex;
    std::vector<std::uint8_t> tags;
    std::deque<Entry> entries;
    std::size_t oldest = 0;  ///< the place of the next entry
  };

  // Different bits of the hash pick the shard and tell its entries apart.
  Shard& shard_of(std::size_t hash) { return shards_[(hash >> 20) % shards]; }
  static std::uint8_t tag_of(std::size_t hash) { return static_cast<std::uint8_t>(hash >> 32); }

  std::size_t shard_capacity_;
  std::array<Shard, shards> shards_;
};

}  // namespace ec::gf
