// What residence_of() answers for bytes in, across and beside known ranges, while ranges come and go.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/residence.hpp"

namespace ec::test {
namespace {

using kernels::KnownRange;
using kernels::Residence;
using kernels::residence_by_driver;
using kernels::residence_of;

/// Addresses only.
const std::uint8_t* at(std::uintptr_t address) { return reinterpret_cast<const std::uint8_t*>(address); }

TEST(KnownRanges, OnlyWhatLiesWhollyInside) {
  EXPECT_EQ(residence_of(at(0x10000), 1), Residence::pageable);
  const KnownRange pinned(at(0x10000), 0x1000, Residence::pinned);
  EXPECT_EQ(residence_of(at(0x10000), 0x1000), Residence::pinned);
  EXPECT_EQ(residence_of(at(0x10fff), 1), Residence::pinned);
  EXPECT_EQ(residence_of(at(0x10800), 0), Residence::pinned);
  EXPECT_EQ(residence_of(at(0xffff), 1), Residence::pageable);
  EXPECT_EQ(residence_of(at(0x11000), 1), Residence::pageable);
  EXPECT_EQ(residence_of(at(0xffff), 2), Residence::pageable);
  EXPECT_EQ(residence_of(at(0x10fff), 2), Residence::pageable);
  EXPECT_EQ(residence_of(at(0x10000), 0x1001), Residence::pageable);
  EXPECT_EQ(residence_of(at(0x10001), SIZE_MAX), Residence::pageable);
  EXPECT_EQ(residence_of(nullptr, 0), Residence::pageable);
}

TEST(KnownRanges, SeveralOfEitherKind) {
  const KnownRange device(at(0x20000), 0x1000, Residence::device);
  const KnownRange pinned(at(0x21000), 0x1000, Residence::pinned);
  EXPECT_EQ(residence_of(at(0x20000), 0x1000), Residence::device);
  EXPECT_EQ(residence_of(at(0x21000), 0x1000), Residence::pinned);
  EXPECT_EQ(residence_of(at(0x20fff), 2), Residence::pageable) << "in neither";
}

TEST(KnownRanges, GoneWithTheirObjectAndCountedWhenDouble) {
  auto first = std::make_unique<KnownRange>(at(0x30000), 0x1000, Residence::pinned);
  auto second = std::make_unique<KnownRange>(at(0x30000), 0x1000, Residence::pinned);
  first.reset();
  EXPECT_EQ(residence_of(at(0x30000), 1), Residence::pinned);
  second.reset();
  EXPECT_EQ(residence_of(at(0x30000), 1), Residence::pageable);
}

TEST(KnownRanges, MoreThanThereIsRoomForCountAsPageable) {
  std::vector<std::unique_ptr<KnownRange>> ranges;
  for (std::uintptr_t i = 0; i < 17; ++i)
    ranges.push_back(std::make_unique<KnownRange>(at(0x40000 + 0x1000 * i), 0x1000, Residence::pinned));
  EXPECT_EQ(residence_of(at(0x40000 + 0x1000 * 15), 1), Residence::pinned);
  EXPECT_EQ(residence_of(at(0x40000 + 0x1000 * 16), 1), Residence::pageable);
  ranges.pop_back();
  EXPECT_EQ(residence_of(at(0x40000 + 0x1000 * 15), 1), Residence::pinned) << "it took nobody's place away";
}

TEST(KnownRanges, NobodyIsAskedWithoutADriver) {
  EXPECT_EQ(residence_by_driver(at(0x10000), 1), Residence::pageable);
  const KnownRange pinned(at(0x10000), 0x1000, Residence::pinned);
  EXPECT_EQ(residence_by_driver(at(0x10000), 1), Residence::pinned);
}

TEST(KnownRanges, ThreadsReadWhileARangeComesAndGoes) {
  std::atomic<bool> stop{false};
  std::atomic<bool> wrong{false};
  const KnownRange stays(at(0x60000), 0x1000, Residence::device);
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      while (!stop)
        if (residence_of(at(0x60800), 8) != Residence::device ||
            residence_of(at(0x50800), 8) == Residence::device ||
            residence_of(at(0x52000), 8) != Residence::pageable)
          wrong = true;
    });
  for (int i = 0; i < 20'000; ++i)
    const KnownRange comes(at(0x50000), 0x1000 + 0x1000 * (i % 2), Residence::pinned);
  stop = true;
  for (auto& r : readers) r.join();
  EXPECT_FALSE(wrong);
}

}  // namespace
}  // namespace ec::test
