// What residence_of() answers for bytes in, across and beside the known range, while that comes and goes.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "kernels/residence.hpp"

namespace ec::test {
namespace {

using kernels::know_pinned;
using kernels::Residence;
using kernels::residence_by_driver;
using kernels::residence_of;

/// Addresses only.
const std::uint8_t* at(std::uintptr_t address) { return reinterpret_cast<const std::uint8_t*>(address); }

TEST(KnownRange, IsPinnedWhollyInsideAndWhileItIsKnown) {
  EXPECT_EQ(residence_of(at(0x10000), 1), Residence::pageable);
  know_pinned(at(0x10000), 0x1000);
  for (const auto& [address, bytes] : {std::pair{0x10000, 0x1000}, {0x10fff, 1}, {0x10800, 0}})
    EXPECT_EQ(residence_of(at(address), bytes), Residence::pinned) << std::hex << address;
  for (const auto& [address, bytes] : {std::pair<std::uintptr_t, std::size_t>{0xffff, 1},
                                       {0x11000, 1},
                                       {0xffff, 2},
                                       {0x10fff, 2},
                                       {0x10000, 0x1001},
                                       {0x10001, SIZE_MAX},
                                       {0, 0}})
    EXPECT_EQ(residence_of(at(address), bytes), Residence::pageable) << std::hex << address;
  EXPECT_EQ(residence_by_driver(at(0x10000), 1), Residence::pinned);
  know_pinned(nullptr, 0);
  EXPECT_EQ(residence_of(at(0x10000), 1), Residence::pageable);
  EXPECT_EQ(residence_by_driver(at(0x10000), 1), Residence::pageable) << "there is no driver to ask";
}

TEST(KnownRange, ThreadsReadWhileItComesAndGoes) {
  std::atomic<bool> stop{false};
  std::atomic<bool> wrong{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      while (!stop)
        if (residence_of(at(0x4f800), 8) != Residence::pageable ||
            residence_of(at(0x51800), 8) != Residence::pageable)
          wrong = true;
    });
  for (int i = 0; i < 20'000; ++i) {
    know_pinned(at(0x50000), 0x1000);
    know_pinned(nullptr, 0);
  }
  stop = true;
  for (auto& r : readers) r.join();
  EXPECT_FALSE(wrong);
}

}  // namespace
}  // namespace ec::test
