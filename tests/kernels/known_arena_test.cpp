// What residence_of() answers for bytes in, across and beside the arena. That it comes and goes with the
// devices: tests/plugin/pinned/device_test.cpp.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ec::test
