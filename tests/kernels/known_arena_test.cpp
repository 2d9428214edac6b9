// What residence_of() answers for bytes in, across and beside the arena, while it comes and goes.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/residence.hpp"

namespace ec::test {
namespace {

using kernels::KnownArena;
using kernels::Residence;
using kernels::residence_of;

/// Addresses only.
const std::uint8_t* at(std::uintptr_t address) { return reinterpret_cast<const std::uint8_t*>(address); }

TEST(KnownArena, OnlyWhatLiesWhollyInside) {
  EXPECT_EQ(residence_of(at(0x10000), 1), Residence::pageable);
  const KnownArena pinned(at(0x10000), 0x1000);
  struct Case {
    std::uintptr_t first;
    std::size_t bytes;
    Residence expected;
  };
  for (const auto& [first, bytes, expected] : {Case{0x10000, 0x1000, Residence::pinned},
                                               {0x10fff, 1, Residence::pinned},
                                               {0x10800, 0, Residence::pinned},
                                               {0xffff, 1, Residence::pageable},
                                               {0x11000, 1, Residence::pageable},
                                               {0xffff, 2, Residence::pageable},
                                               {0x10fff, 2, Residence::pageable},
                                               {0x10000, 0x1001, Residence::pageable},
                                               {0x10001, SIZE_MAX, Residence::pageable},
                                               {0, 0, Residence::pageable}})
    EXPECT_EQ(residence_of(at(first), bytes), expected) << first << ", " << bytes;
}

TEST(KnownArena, IsKnownUntilTheLastWhoSaysSoIsGone) {
  auto first = std::make_unique<KnownArena>(at(0x30000), 0x1000);
  auto second = std::make_unique<KnownArena>(at(0x30000), 0x1000);
  first.reset();
  EXPECT_EQ(residence_of(at(0x30000), 1), Residence::pinned);
  second.reset();
  EXPECT_EQ(residence_of(at(0x30000), 1), Residence::pageable);
}

TEST(KnownArena, ThreadsReadWhileItComesAndGoes) {
  std::atomic<bool> stop{false}, wrong{false};
  std::vector<std::jthread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      while (!stop)
        if (residence_of(at(0x50800), 8) == Residence::device ||
            residence_of(at(0x52000), 8) != Residence::pageable)
          wrong = true;
    });
  for (int i = 0; i < 20'000; ++i) const KnownArena comes(at(0x50000), 0x1000);
  stop = true;
  readers.clear();
  EXPECT_FALSE(wrong);
}

}  // namespace
}  // namespace ec::test
