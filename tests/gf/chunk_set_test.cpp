// ChunkSet against std::set.
#include "gf/chunk_set.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_set>
#include <vector>

#include "tests/common/random_bytes.hpp"

namespace ec::test {
namespace {

using gf::ChunkSet;

std::vector<unsigned> listed(const ChunkSet& s) {
  std::vector<unsigned> members;
  for (const unsigned c : s) members.push_back(c);
  return members;
}

TEST(ChunkSet, BehavesAsASetOfNumbers) {
  Random random(3);
  for (unsigned round = 0; round < 200; ++round) {
    ChunkSet a, b;
    std::set<unsigned> sa, sb;
    for (unsigned i = 0; i < random.below(60); ++i) {
      const unsigned c = random.below(256), d = random.below(256);
      a.insert(c), sa.insert(c);
      b.insert(d), sb.insert(d);
      if (i % 5 == 4) a.erase(d), sa.erase(d);
    }
    std::vector<unsigned> both, only;
    std::ranges::set_intersection(sa, sb, std::back_inserter(both));
    std::ranges::set_difference(sa, sb, std::back_inserter(only));
    ASSERT_EQ(listed(a), std::vector<unsigned>(sa.begin(), sa.end()));
    ASSERT_EQ(listed(a & b), both);
    ASSERT_EQ(listed(a - b), only);
    ASSERT_EQ(a.includes(b), std::ranges::includes(sa, sb));
    ASSERT_EQ(a == b, sa == sb);
    ASSERT_EQ(a.count(), sa.size());
  }
}

TEST(ChunkSet, HashesOfSmallPatternsSpread) {
  std::unordered_set<std::size_t> hashes;
  for (unsigned bits = 0; bits < 4096; ++bits) {
    ChunkSet s;
    for (unsigned c = 0; c < 12; ++c)
      if (bits >> c & 1) s.insert(c * 20);
    hashes.insert(s.hash());
  }
  EXPECT_EQ(hashes.size(), 4096u);
}

}  // namespace
}  // namespace ec::test
