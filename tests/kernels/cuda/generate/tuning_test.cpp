#include "kernels/cuda/generate/tuning.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace ec::kernels::cuda {
namespace {

TEST(Tuning, EveryShapeAndChipHasUsableOptions) {
  for (const unsigned chip : {75u, 80u, 86u, 89u, 90u, 100u, 120u})
    for (unsigned k = 1; k < 255; ++k)
      for (unsigned m = 1; k + m <= 255; m += 7) {
        const ProgramOptions options = pick_options(k, m, chip);
        ASSERT_TRUE(options.schedule.sources_per_step == 1 || options.schedule.sources_per_step == 2);
        ASSERT_TRUE(options.emit.threads >= 32 && options.emit.threads <= 1024);
        ASSERT_EQ(options.emit.threads % 32, 0u);
        ASSERT_FALSE(options.emit.accumulate);
        ASSERT_FALSE(options.emit.batch);
      }
}

TEST(Tuning, GeneratesWhatWasMeasuredFasterOnly) {
  for (const auto& [k, m] :
       {std::pair{1u, 1u}, {4u, 2u}, {8u, 3u}, {10u, 4u}, {20u, 4u}, {20u, 1u}, {32u, 8u}})
    EXPECT_TRUE(worth_generating(k, m)) << k << "+" << m;
  for (const auto& [k, m] : {std::pair{64u, 16u}, {128u, 32u}, {33u, 8u}, {128u, 4u}, {4u, 9u}})
    EXPECT_FALSE(worth_generating(k, m)) << k << "+" << m;
}

TEST(Tuning, DescriptionsTellOptionsApart) {
  std::set<std::string> seen;
  std::size_t count = 0;
  const auto add = [&](auto change) {
    ProgramOptions options;
    change(options);
    seen.insert(describe(options));
    ++count;
  };
  add([](ProgramOptions&) {});
  add([](ProgramOptions& o) { o.schedule.strategy = Strategy::nibble_sums; });
  add([](ProgramOptions& o) { o.schedule.sources_per_step = 1; });
  add([](ProgramOptions& o) { o.emit.accumulate = true; });
  add([](ProgramOptions& o) { o.emit.batch = true; });
  add([](ProgramOptions& o) { o.emit.threads = 128; });
  add([](ProgramOptions& o) { o.emit.min_blocks = 2; });
  add([](ProgramOptions& o) { o.emit.prefetch = 2; });
  add([](ProgramOptions& o) { o.emit.lockstep = true; });
  add([](ProgramOptions& o) { o.emit.transposition = Transposition::multiply_left; });
  add([](ProgramOptions& o) { o.emit.load = LoadHint::streaming; });
  add([](ProgramOptions& o) { o.emit.store = StoreHint::streaming; });
  EXPECT_EQ(seen.size(), count);
}

}  // namespace
}  // namespace ec::kernels::cuda
