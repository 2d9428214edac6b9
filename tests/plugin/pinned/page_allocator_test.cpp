// Blocks of the arena's allocator against a model: none overlaps another, none leaves the range, and all of
// it is one free extent again when everything has come back.
#include "plugin/pinned/page_allocator.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "tests/common/random_bytes.hpp"

namespace ec::test {
namespace {

using pinned::PageAllocator;

constexpr std::size_t page = PageAllocator::page_bytes;

/// Never touched: the range is addresses only.
struct Range {
  explicit Range(std::size_t pages) : bytes(pages * page), books(PageAllocator::book_bytes(bytes)) {}
  void* start() const { return reinterpret_cast<void*>(std::uintptr_t{0x7000'0000'0000}); }
  void* at(std::size_t index) const { return static_cast<char*>(start()) + index * page; }

  std::size_t bytes;
  std::vector<std::uint8_t> books;
  PageAllocator allocator{start(), bytes, books.data()};
};

TEST(PageAllocator, TakesTheShortestExtentThatFits) {
  Range r(16);
  for (const std::size_t pages : {4, 1, 2, 1}) ASSERT_NE(r.allocator.allocate(8, pages * page), nullptr);
  r.allocator.release(r.at(0));
  r.allocator.release(r.at(5));
  EXPECT_EQ(r.allocator.allocate(8, 2 * page), r.at(5));
  EXPECT_EQ(r.allocator.allocate(8, page), r.at(0));
}

TEST(PageAllocator, RandomBlocksNeverOverlapAndAllComeBack) {
  constexpr unsigned pages = 1000;
  Range r(pages);
  Random random(7);
  std::map<std::uintptr_t, std::size_t> model;  // start, bytes
  unsigned made = 0;
  for (int step = 0; step < 200'000; ++step) {
    if (random.below(2) == 0) {
      const std::size_t bytes = 1 + random.below(40 * 4096);
      const std::size_t alignment = std::size_t{8} << random.below(14);
      const auto p = reinterpret_cast<std::uintptr_t>(r.allocator.allocate(alignment, bytes));
      if (p == 0) continue;
      ++made;
      const std::size_t held = (bytes + page - 1) / page * page;
      ASSERT_EQ(p % alignment, 0u);
      ASSERT_EQ(r.allocator.size_of(reinterpret_cast<void*>(p)), held);
      ASSERT_EQ(r.allocator.size_of(reinterpret_cast<void*>(p + held - page / 2)), 0u) << "inside a block";
      ASSERT_GE(p, reinterpret_cast<std::uintptr_t>(r.start()));
      ASSERT_LE(p + held, reinterpret_cast<std::uintptr_t>(r.at(pages)));
      const auto behind = model.lower_bound(p);
      ASSERT_TRUE(behind == model.end() || p + held <= behind->first);
      ASSERT_TRUE(behind == model.begin() || std::prev(behind)->first + std::prev(behind)->second <= p);
      model[p] = held;
    } else if (!model.empty()) {
      auto at = model.lower_bound(reinterpret_cast<std::uintptr_t>(r.at(random.below(pages))));
      if (at == model.end()) at = model.begin();
      ASSERT_EQ(r.allocator.release(reinterpret_cast<void*>(at->first)), at->second);
      model.erase(at);
    }
  }
  EXPECT_GT(made, 10'000u);
  for (const auto& [start, bytes] : model)
    ASSERT_EQ(r.allocator.release(reinterpret_cast<void*>(start)), bytes);
  for (const std::size_t bytes : {std::size_t{0}, pages * page + 1, SIZE_MAX})
    EXPECT_EQ(r.allocator.allocate(8, bytes), nullptr) << bytes;
  EXPECT_EQ(r.allocator.allocate(std::size_t{1} << 62, page), nullptr);
  EXPECT_EQ(r.allocator.allocate(8, pages * page), r.at(0)) << "one extent again";
}

}  // namespace
}  // namespace ec::test
