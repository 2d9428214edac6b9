// What a call through Ceph's interface allocates and locks: no more than the host's own maps and buffers
// need, and no more than Debian's isa plugin does.
#include "tests/common/allocator.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>

#include <cerrno>
#include <cstdlib>

#include "plugin/ceph/tentacle.hpp"
#include "tests/common/child.hpp"
#include "tests/plugin/ceph/roles.hpp"

namespace ec::test {
namespace {

constexpr std::size_t chunk_bytes = 4096;

struct Shape {
  std::string technique;
  unsigned k, m;
};

class CostsThroughCeph : public testing::TestWithParam<Shape> {
 protected:
  /// Before the plugin reads it: a call that is due for validation may allocate.
  static void SetUpTestSuite() { setenv("EC_CUDA_VALIDATE", "off", 1); }

  CallCosts encode(const Code& code) const {
    return code.with([&](auto& c) {
      Chunks out;
      c.encode(all_, object_, &out);
      out.clear();
      return costs_of([&] { EXPECT_EQ(c.encode(all_, object_, &out), 0); });
    });
  }

  CallCosts decode(const Code& code, unsigned count) const {
    const auto lost = first_chunks(count);
    const Chunks left = without(code.encode(object_), lost);
    return code.with([&](auto& c) {
      Chunks out;
      c.decode(lost, left, &out, chunk_bytes);
      out.clear();
      return costs_of([&] { EXPECT_EQ(c.decode(lost, left, &out, chunk_bytes), 0); });
    });
  }

  const Profile profile_ = profile_of(GetParam().technique, GetParam().k, GetParam().m);
  const Code ours_{make("cuda", profile_)}, stock_{make("stockisa", profile_)};
  const std::set<int> all_ = first_chunks(ours_.n());
  const ceph::bufferlist object_ = Draw(1).bytes(chunk_bytes * ours_.k(), 1);
};

TEST_P(CostsThroughCeph, EncodeAllocatesWhatTheHostGets) {
  const CallCosts ours = encode(ours_);
  const unsigned n = GetParam().k + GetParam().m;
  // A map's node and a list's node for each chunk; the one buffer of short coding chunks has a header and
  // bytes.
  EXPECT_EQ(ours.allocations, 2 * n + std::min(GetParam().m, 2u)) << "isa: " << encode(stock_).allocations;
  EXPECT_EQ(ours.locks, 0u);
}

TEST_P(CostsThroughCeph, DecodeAllocatesWhatTheHostGetsAndNoMoreThanIsa) {
  for (const unsigned lost : {1u, GetParam().m}) {
    const CallCosts ours = decode(ours_, lost);
    const CallCosts stock = decode(stock_, lost);
    EXPECT_LE(ours.allocations, stock.allocations) << lost << " lost";
    // A map's node and a list's node for what the host gets, and the buffer.
    EXPECT_EQ(ours.allocations, 2 * lost + std::min(lost, 2u));
    EXPECT_LE(ours.locks, 1u) << "that of the plan's shard; isa: " << stock.locks;
  }
}

TEST_P(CostsThroughCeph, WhatIsMadeBeginsAtACacheLine) {
  const auto [technique, k, m] = GetParam();
  for (const std::size_t bytes : {32, 1000, 4096, 8192, 70000, 300000}) {
    const Chunks out = ours_.encode(Draw(bytes).bytes(bytes * k, 1));
    for (unsigned c = k; c < k + m; ++c)
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(out.at(static_cast<int>(c)).front().c_str()) % 64, 0u);
  }
}

/// Of a plugin that refuses a setting.
TEST(LoadedWithoutMemory, IsRefusedWithAnErrorNumber) {
  const int status = in_child([] {
    setenv("EC_CUDA_BACKEND", "wrong", 1);
    void* const plugin = dlopen(EC_PLUGIN_DIR "/libec_cuda.so", RTLD_NOW);
    if (plugin == nullptr) return 1;
    const auto init =
        reinterpret_cast<int (*)(const char*, const char*)>(dlsym(plugin, "__erasure_code_init"));
    int refused = 0;
    for (unsigned n = 1;; ++n) {
      begin_shortage(n, true);
      const int answer = init("cuda", EC_PLUGIN_DIR);
      if (end_shortage() == 0) return refused > 0 && answer == -EINVAL ? 0 : 2;
      if (answer != -ENOMEM && answer != -EINVAL) return 3;
      refused += answer == -ENOMEM;
    }
  });
  EXPECT_EQ(status, 0);
}

TEST(ASecondInitWithoutMemory, LeavesTheObjectUnchanged) {
  const Profile small = profile_of("reed_sol_van", 2, 1);
  const auto door = std::make_shared<ceph::Tentacle>();
  for (const Code& code : {Code(make("cuda", small)), Code(door)})
    code.with([&](auto& c) {
      Profile before = small;
      ASSERT_EQ(c.init(before, nullptr), 0);
      for (unsigned n = 1;; ++n) {
        Profile other = profile_of("cauchy", 3, 2);
        other["mapping"] = "_DDD_";
        begin_shortage(n, true);
        const int answer = c.init(other, nullptr);
        if (end_shortage() == 0) {
          EXPECT_EQ(answer, 0);
          EXPECT_GT(n, 1u) << "no allocation failed";
          return;
        }
        ASSERT_EQ(answer, -ENOMEM) << n;
        ASSERT_EQ(c.get_profile(), before) << n;
        ASSERT_EQ(c.get_chunk_count(), 3u) << n;
        ASSERT_EQ(code.mapping(), std::vector<int>{}) << n;
      }
    });
}

INSTANTIATE_TEST_SUITE_P(Shapes, CostsThroughCeph,
                         testing::Values(Shape{"reed_sol_van", 2, 1}, Shape{"reed_sol_van", 4, 2},
                                         Shape{"reed_sol_van", 10, 4}, Shape{"cauchy", 8, 3}),
                         [](const auto& info) {
                           return fmt::format("{}_{}_{}", info.param.technique, info.param.k, info.param.m);
                         });

}  // namespace
}  // namespace ec::test
