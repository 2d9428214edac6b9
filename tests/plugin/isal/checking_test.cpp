// The door by itself: calls that are compared, and what it does when they differ.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/backends.hpp"
#include "plugin/codec/stats/stats.hpp"
#include "plugin/isal/door.hpp"
#include "tests/common/oracle.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {
namespace {

using isal::Door;
using isal::Real;

const Real& real() {
  static const Real library = isal::load_real(EC_REAL_ISAL);
  return library;
}

/// A library that flips a bit of what it codes: to the door our kernels differ from it.
Real other_opinion() {
  Real other = real();
  other.encode = [](int bytes, int k, int rows, unsigned char* tables, unsigned char** sources,
                    unsigned char** targets) {
    real().encode(bytes, k, rows, tables, sources, targets);
    targets[rows - 1][bytes / 2] ^= 0x10;
  };
  return other;
}

/// A call, and the bytes that it should make. last: the coefficients of the last source. One block that is
/// compared is all of it.
struct Work {
  explicit Work(unsigned bytes = 3000, unsigned k_ = 5, unsigned rows_ = 3, std::uint8_t last = 9)
      : k(k_), rows(rows_) {
    Random random(7);
    chunks = random.chunks(k + rows, bytes);
    oracle::Rows matrix = random.chunks(rows, k);
    for (auto& row : matrix) row.back() = last;
    for (const auto& row : matrix)
      for (const auto c : row) {
        tables.resize(tables.size() + isal::entry_bytes);
        isal::write_entry(c, &*tables.end() - isal::entry_bytes);
      }
    right = oracle::apply(matrix, {chunks.begin(), chunks.begin() + k});
  }

  /// Whether the door makes those bytes, but for the bits `flipped` in the middle of the last target.
  bool is_right(Door& door, unsigned flipped = 0) {
    auto all = chunks;
    std::vector<unsigned char*> at;
    for (auto& chunk : all) at.push_back(chunk.data());
    door.encode({static_cast<int>(all[0].size()), static_cast<int>(k), static_cast<int>(rows), tables.data(),
                 at.data(), at.data() + k});
    all.back()[all.back().size() / 2] ^= static_cast<std::uint8_t>(flipped);
    return std::equal(right.begin(), right.end(), all.begin() + k);
  }

  unsigned k, rows;
  std::vector<std::uint8_t> tables;
  std::vector<std::vector<std::uint8_t>> chunks, right;
};

codec::Checks counted() {
  codec::Checks all;
  for (const auto& checks : codec::stats().page().checks) {
    all.checked += checks.checked;
    all.mismatches += checks.mismatches;
    all.unchecked += checks.unchecked;
  }
  return all;
}

TEST(IsalDoorChecking, RightCallsAreCountedAndKept) {
  Door door(real(), kernels::x86::backend(), 1);
  const auto before = counted();
  Work work;
  for (unsigned i = 0; i < 50; ++i) ASSERT_TRUE(work.is_right(door));
  EXPECT_FALSE(door.is_off());
  EXPECT_EQ(counted().checked, before.checked + (kernels::x86::backend().runs_here() ? 50 : 0));
  EXPECT_EQ(counted().mismatches, before.mismatches);
}

TEST(IsalDoorChecking, WhereBothDifferTheRealLibraryCodes) {
  if (!kernels::x86::backend().runs_here()) GTEST_SKIP() << "this CPU runs none of our kernels";
  Door door(other_opinion(), kernels::x86::backend(), 1);
  Work work;
  const auto before = counted();
  EXPECT_TRUE(work.is_right(door, 0x10)) << "the call itself is not made anew";
  EXPECT_TRUE(door.is_off());
  EXPECT_TRUE(work.is_right(door, 0x10)) << "our kernels are used again";
  EXPECT_EQ(counted().mismatches, before.mismatches + 1);
}

TEST(IsalDoorChecking, OneCallInManyIsCompared) {
  if (!kernels::x86::backend().runs_here()) GTEST_SKIP() << "this CPU runs none of our kernels";
  Door door(real(), kernels::x86::backend(), 10);
  Work work(1024);
  const auto before = counted();
  for (unsigned i = 0; i < 2000; ++i) ASSERT_TRUE(work.is_right(door));
  const auto checked = counted().checked - before.checked;
  EXPECT_GT(checked, 120u);
  EXPECT_LT(checked, 320u);
}

// As a CPU that has a smaller instruction set would.
TEST(IsalDoorChecking, EveryInstructionSetCodes) {
  for (kernels::Backend* variant : kernels::x86::variants()) {
    const auto& x86 = *static_cast<const kernels::x86::X86*>(variant);
    // Where it cannot take our tables, ours code short chunks too.
    for (const bool classic : {false, true}) {
      Real library = real();
      library.classic_tables = library.classic_tables && classic;
      Door door(library, x86, 0);
      EXPECT_EQ(door.is_off(), !x86.runs_here());
      for (const unsigned bytes : {1u, 31u, 64u, 4096u, 70001u})
        EXPECT_TRUE(Work(bytes).is_right(door)) << variant->name() << " " << bytes;
      EXPECT_TRUE(Work(100, 300, 5).is_right(door)) << variant->name() << " 300 columns";
      EXPECT_TRUE(Work(100, 3, 300).is_right(door)) << variant->name() << " 300 rows";
    }
  }
}

// As ISA-L since 2.31 writes other tables, where the CPU has GFNI.
TEST(IsalDoorChecking, TheRealLibraryGetsTablesOfItsOwn) {
  Real library = real();
  library.classic_tables = false;
  Door door(library, kernels::x86::backend(), 0);
  for (const auto& [k, rows] : {std::pair{5u, 3u}, {300u, 5u}, {3u, 1100u}}) {
    constexpr unsigned bytes = 50;
    Work work(bytes, k, rows, 0);
    std::vector<unsigned char*> at;
    for (unsigned i = 0; i < k; ++i) at.push_back(work.chunks[i].data());
    std::vector targets(rows, std::vector<std::uint8_t>(bytes));
    for (auto& target : targets) at.push_back(target.data());
    const int width = static_cast<int>(k), height = static_cast<int>(rows);
    for (unsigned c = 0; c < k; ++c)
      door.update(bytes, width, height, static_cast<int>(c), work.tables.data(), at[c], at.data() + k);
    EXPECT_EQ(targets, work.right) << "update " << k << "+" << rows;
    // The source that does not count is a target, so that the call is not ours.
    at[k - 1] = at[k];
    for (auto& target : targets) std::ranges::fill(target, std::uint8_t{0xa7});
    door.encode({bytes, width, height, work.tables.data(), at.data(), at.data() + k});
    EXPECT_EQ(targets, work.right) << "encode " << k << "+" << rows;
  }
}

TEST(IsalDoorReal, WhatIsNoIsalIsRefused) {
  EXPECT_EXIT(isal::load_real("/nowhere/libisal.so.2"), ::testing::ExitedWithCode(127),
              "libec_isal: /nowhere/lib");
  EXPECT_EXIT(isal::load_real("libdl.so.2"), ::testing::ExitedWithCode(127),
              "libdl.so.2 is not an ISA-L.*ec_init_tables");
  EXPECT_EXIT(isal::load_real(EC_ISAL_DOOR), ::testing::ExitedWithCode(127), "it is libec_isal.so itself");
}

}  // namespace
}  // namespace ec::test
