// A call on host memory allocates nothing, takes no lock and makes no system call once its code is warm; of
// targets beyond the second-level cache it asks now and then whether their pages are new.
#include "tests/common/allocator.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "plugin/codec/codec.hpp"
#include "tests/common/stripes.hpp"

namespace ec::test {
namespace {

using codec::BackendChoice;
using codec::Codec;
using kernels::Status;

/// Something of each kind, so that the tests below cannot pass because nothing is seen.
TEST(CallCosts, AreSeen) {
  std::shared_mutex mutex;
  EXPECT_EQ(costs_of([] {}), CallCosts{});
  EXPECT_EQ(costs_of([] { ::operator delete(::operator new(1)); }).allocations, 1u);
  EXPECT_EQ(costs_of([] { std::vector<int>(7); }).allocations, 1u);
  EXPECT_EQ(costs_of([&] { std::shared_lock lock(mutex); }).locks, 1u);
  EXPECT_EQ(costs_of([&] { std::unique_lock lock(mutex); }).locks, 1u);
  EXPECT_EQ(costs_of([&] { std::shared_lock lock(mutex, std::try_to_lock); }).locks, 1u);
  EXPECT_EQ(costs_of([&] { std::unique_lock lock(mutex, std::try_to_lock); }).locks, 1u);
  if (system_calls_of([] {}) == SystemCalls::unknown) GTEST_SKIP() << "no seccomp";
  EXPECT_EQ(system_calls_of([] {}), SystemCalls::none);
  EXPECT_EQ(system_calls_of([] { getppid(); }), SystemCalls::some);
}

struct Call {
  unsigned k, m;
  std::size_t bytes;
};
/// Small ones with and without a tail, one that is written past the cache, one in several passes.
constexpr Call calls[] = {{2, 1, 4096},   {4, 2, 1},        {4, 2, 4096},  {8, 3, 4097},
                          {10, 4, 65536}, {4, 2, 3u << 20}, {20, 70, 1000}};

class CostsOf : public testing::TestWithParam<BackendChoice> {
 protected:
  static void expect_none(const Call& call, const char* what, const std::function<Status()>& code) {
    ASSERT_EQ(code(), Status::ok);
    Status status = Status::fault;
    const CallCosts costs = costs_of([&] { status = code(); });
    EXPECT_EQ(status, Status::ok);
    EXPECT_EQ(costs.allocations, 0u) << what << " " << call.k << "+" << call.m << ", " << call.bytes;
    EXPECT_EQ(costs.locks, 0u) << what << " " << call.k << "+" << call.m << ", " << call.bytes;
    // Of eight calls with long targets one looks for new pages, after eight that found none.
    const unsigned looks = call.bytes < 1 << 20 ? 0 : 1;
    for (unsigned i = 0; i < 8 * looks; ++i) static_cast<void>(code());
    unsigned some = 0;
    for (unsigned i = 0; i <= 7 * looks; ++i) {
      some += system_calls_of([&] { status = code(); }) == SystemCalls::some;  // in a process of its own
      static_cast<void>(code());
    }
    EXPECT_LE(some, looks) << what << " " << call.k << "+" << call.m << ", " << call.bytes;
  }
};

TEST_P(CostsOf, ACallAreNone) {
  for (const Call& call : calls) {
    // The reference back end takes seconds for megabytes, and is the same code for any length.
    if (GetParam() == BackendChoice::reference && call.bytes > 65536) continue;
    const Codec codec(gf::Technique::cauchy, call.k, call.m, codec::Router(GetParam(), 0));
    StripeSet stripes("cauchy", call.k, call.m, 1, call.bytes, 1);
    const auto data = stripes.views<kernels::Source>(stripes.data_numbers());
    const auto coding = stripes.views<kernels::Target>(stripes.coding_numbers());
    expect_none(call, "encode", [&] { return codec.encode(data, coding, call.bytes); });
    expect_none(call, "update", [&] { return codec.update(1, data[0], coding, call.bytes); });

    const gf::ErasureSignature signature{gf::ChunkSet::first(call.k + call.m) - gf::ChunkSet{0},
                                         gf::ChunkSet{0}};
    const auto plan = codec.code().plan(signature);
    ASSERT_TRUE(plan);
    const auto read = stripes.views<kernels::Source>(numbers(1, call.k + 1));
    const auto made = stripes.views<kernels::Target>(numbers(0, 1));
    expect_none(call, "decode", [&] { return codec.decode(*plan, read, made, call.bytes); });
    // Looking a known plan up takes the shared lock of one shard of the cache.
    EXPECT_EQ(costs_of([&] { static_cast<void>(codec.code().plan(signature)); }), (CallCosts{0, 1}));
  }
}

/// Of a comparison with times that are known, and of what is learned from the call.
TEST(CallCosts, OfAComparisonAreNone) {
  codec::CallTimes times;
  // The CPU is the better one: what a device costs is not asked.
  for (const bool device : {true, false})
    times.took({.bytes = std::uint64_t{11} << 16, .device = device, .probe = codec::CallTimes::Probe::last},
               times.now() - std::chrono::seconds(device ? 100 : 1), 0);
  const codec::Router router(BackendChoice::automatic, std::nullopt, kernels::backends(), codec::stats(),
                             codec::no_validation(), times);
  const Codec codec(gf::Technique::cauchy, 8, 3, router);
  constexpr std::size_t bytes = std::size_t{1} << 16;
  StripeSet stripes("cauchy", 8, 3, 1, bytes, 1);
  auto data = stripes.views<kernels::Source>(stripes.data_numbers());
  auto coding = stripes.views<kernels::Target>(stripes.coding_numbers());
  for (auto& chunk : data) chunk.residence = kernels::Residence::pinned;
  for (auto& chunk : coding) chunk.residence = kernels::Residence::pinned;
  const auto encode = [&] { static_cast<void>(codec.encode(data, coding, bytes)); };
  encode();
  // Before the first probe, and with one that is timed.
  static_assert(codec::CallTimes::cpu_sample == 5 && codec::CallTimes::first_gap > 5);
  for (unsigned call = 0; call < 2; ++call) {
    EXPECT_EQ(costs_of(encode), CallCosts{});
    EXPECT_NE(system_calls_of(encode), SystemCalls::some);
  }
}

/// The first timed call in each second looks at the preload's arena, which is not there.
TEST(CallCosts, OfTheFirstCallInASecondAreNone) {
  const Codec codec(gf::Technique::cauchy, 2, 1, codec::Router(BackendChoice::cpu, 0));
  const std::size_t bytes = std::size_t{1} << 18;
  StripeSet stripes("cauchy", 2, 1, 1, bytes, 1);
  const auto data = stripes.views<kernels::Source>(stripes.data_numbers());
  const auto coding = stripes.views<kernels::Target>(stripes.coding_numbers());
  const auto encode = [&] { static_cast<void>(codec.encode(data, coding, bytes)); };
  encode();
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    EXPECT_EQ(costs_of(encode), CallCosts{});
  }
}

INSTANTIATE_TEST_SUITE_P(Choices, CostsOf,
                         testing::Values(BackendChoice::automatic, BackendChoice::cpu, BackendChoice::x86,
                                         BackendChoice::isal, BackendChoice::reference),
                         [](const auto& info) { return std::string(codec::name(info.param)); });

}  // namespace
}  // namespace ec::test
