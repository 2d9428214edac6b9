// The bounded cache of decode plans: bound, order of eviction, one value for all, and many threads.
#include "gf/signature_cache.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/common/child.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/common/threads.hpp"

namespace ec::test {
namespace {

using gf::ErasureSignature;
using Cache = gf::SignatureCache<unsigned>;

ErasureSignature key(unsigned number) {
  ErasureSignature s;
  for (unsigned bit = 0; bit < 24; ++bit)
    if (number >> bit & 1) s.available.insert(bit);
  s.wanted.insert(200);
  return s;
}

Cache::Pointer value(unsigned number) { return std::make_shared<const unsigned>(number); }

/// Keys that share a shard: in a cache with one entry a shard, the second of two such keys throws the first
/// out.
std::vector<unsigned> keys_of_one_shard(std::size_t count) {
  std::vector<unsigned> found{0};
  for (unsigned candidate = 1; found.size() < count; ++candidate) {
    Cache probe(1);
    probe.insert(key(0), value(0));
    probe.insert(key(candidate), value(candidate));
    if (!probe.find(key(0))) found.push_back(candidate);
  }
  return found;
}

TEST(SignatureCache, FindsWhatWasInsertedFirst) {
  Cache cache(1000);
  EXPECT_EQ(cache.find(key(1)), nullptr);
  const auto first = cache.insert(key(1), value(10));
  EXPECT_EQ(*first, 10u);
  EXPECT_EQ(cache.find(key(1)), first);
  EXPECT_EQ(cache.insert(key(1), value(20)), first);
  EXPECT_EQ(cache.find(key(1)), first);
  EXPECT_EQ(cache.find(key(2)), nullptr);
  auto other = key(1);
  other.wanted = {201};
  EXPECT_EQ(cache.find(other), nullptr);
}

TEST(SignatureCache, NeverHoldsMoreThanItsCapacity) {
  for (const std::size_t wanted : {1u, 16u, 17u, 100u}) {
    Cache cache(wanted);
    for (unsigned i = 0; i < 2000; ++i) {
      cache.insert(key(i), value(i));
      ASSERT_NE(cache.find(key(i)), nullptr) << "what was just inserted is there";
    }
    std::size_t held = 0;
    for (unsigned i = 0; i < 2000; ++i) held += cache.find(key(i)) != nullptr;
    EXPECT_EQ(held, (wanted + 15) / 16 * 16) << "2000 keys fill every shard, and a full one does not grow";
  }
}

TEST(SignatureCache, EvictsInTheOrderOfArrival) {
  constexpr unsigned held = 3;
  const auto keys = keys_of_one_shard(3 * held);
  Cache cache(held * 16);
  for (unsigned last = 0; last < keys.size(); ++last) {
    cache.insert(key(keys[last]), value(last));
    for (unsigned i = 0; i <= last; ++i) {
      const auto found = cache.find(key(keys[i]));
      ASSERT_EQ(found != nullptr, i + held > last) << i << " of " << last;
      ASSERT_TRUE(!found || *found == i);
    }
  }
}

TEST(SignatureCache, EightThreadsSeeOnlyWholeRightValues) {
  Cache cache(64);
  std::atomic<unsigned> wrong{0}, hits{0};
  in_threads(8, [&](unsigned t) {
    Random random(t);
    for (unsigned i = 0; i < 20000; ++i) {
      const unsigned number = random.below(i % 2 == 0 ? 20 : 300);
      auto found = cache.find(key(number));
      if (found) ++hits;
      if (!found) found = cache.insert(key(number), value(number));
      if (!found || *found != number) ++wrong;
    }
  });
  unsigned held = 0;
  for (unsigned i = 0; i < 300; ++i) held += cache.find(key(i)) != nullptr;
  EXPECT_LE(held, 64u);
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(hits, 0u);
}

TEST(SignatureCache, AChildOfForkWaitsForNoThreadOfItsParent) {
  Cache cache(1);
  std::atomic<bool> stop{false};
  int failed = 0;
  auto storing = threads_of(2, [&](unsigned t) {
    for (unsigned i = t; !stop; i += 2) cache.insert(key(i), value(i));
  });
  for (int n = 0; n < 40 && failed == 0; ++n)
    failed = in_child([&] {
      for (unsigned i = 0; i < 64; ++i)
        if (!cache.find(key(i)) && *cache.insert(key(i), value(i)) != i) return 1;
      return 0;
    });
  stop = true;
  storing.clear();
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace ec::test
