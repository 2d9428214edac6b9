// What the compiler says of emitted programs. Without NVRTC these are skipped, and say so.
#include "kernels/cuda/generate/emit.hpp"

#include <gtest/gtest.h>

#include <regex>

#include "gf/generator.hpp"
#include "kernels/cuda/generate/nvrtc.hpp"

namespace ec::kernels::cuda {
namespace {

gf::Matrix coding(unsigned k, unsigned m) { return gf::coding_matrix(gf::Technique::cauchy, k, m); }

std::string program(const gf::Matrix& matrix, const EmitOptions& options = {}) {
  return emit(matrix, make_schedule(matrix), options);
}

struct Report {
  unsigned registers = 0, spilled_bytes = 0;
  bool found = false;
};

/// From the compiler's report of the kernel (its other functions come after it).
Report report_of(const std::string& log) {
  Report r;
  std::smatch match;
  static const std::regex spill(R"((\d+) bytes spill stores, (\d+) bytes spill loads)"),
      used(R"(Used (\d+) registers)");
  if (!std::regex_search(log, match, used)) return r;
  r.registers = static_cast<unsigned>(std::stoul(match[1]));
  auto at = std::sregex_iterator(log.begin(), log.end(), spill);
  r.found = at != std::sregex_iterator();
  for (; at != std::sregex_iterator(); ++at)
    r.spilled_bytes += static_cast<unsigned>(std::stoul((*at)[1]) + std::stoul((*at)[2]));
  return r;
}

TEST(Emit, IsDeterministic) { EXPECT_EQ(program(coding(10, 4)), program(coding(10, 4))); }

class Compile : public ::testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    if (const std::string missing = nvrtc_missing(); !missing.empty()) GTEST_SKIP() << missing;
  }
};

TEST_P(Compile, NoShapeUpToTwentySourcesSpills) {
  for (const auto& [k, m] : {std::pair{4u, 2u},
                             {6u, 3u},
                             {8u, 3u},
                             {8u, 4u},
                             {10u, 4u},
                             {12u, 4u},
                             {16u, 4u},
                             {20u, 1u},
                             {20u, 4u}}) {
    const Compiled compiled =
        compile(program(coding(k, m), options_for(GetParam())), GetParam(), {"--ptxas-options=-v"});
    ASSERT_TRUE(compiled) << k << "+" << m << "\n" << compiled.log;
    const Report report = report_of(compiled.log);
    ASSERT_TRUE(report.found) << compiled.log;
    EXPECT_EQ(report.spilled_bytes, 0u) << k << "+" << m;
    EXPECT_LE(report.registers, 128u) << k << "+" << m;
    RecordProperty("registers_" + std::to_string(k) + "_" + std::to_string(m),
                   static_cast<int>(report.registers));
  }
}

TEST_P(Compile, TakesEveryForm) {
  for (const bool accumulate : {false, true})
    for (const bool batch : {false, true})
      for (const bool lockstep : {false, true}) {
        EmitOptions options{.accumulate = accumulate, .batch = batch, .prefetch = batch ? 2u : 0u};
        options.lockstep = lockstep;
        options.load = accumulate ? LoadHint::no_allocate : LoadHint::streaming;
        options.store = batch ? StoreHint::streaming : StoreHint::no_allocate;
        options.transposition = lockstep ? Transposition::multiply_both : Transposition::multiply_left;
        const Compiled compiled = compile(program(coding(4, 2), options), GetParam());
        EXPECT_TRUE(compiled) << accumulate << batch << lockstep << "\n" << compiled.log;
      }
}

TEST_P(Compile, TakesAMatrixOfZerosAndOfOnes) {
  gf::Matrix matrix(2, 3);
  EXPECT_TRUE(compile(program(matrix), GetParam()));
  for (unsigned c = 0; c < 3; ++c) matrix(0, c) = matrix(1, c) = 1;
  EXPECT_TRUE(compile(program(matrix), GetParam()));
}

TEST_P(Compile, SaysWhatIsWrong) {
  const Compiled compiled = compile("not CUDA", GetParam());
  EXPECT_FALSE(compiled);
  EXPECT_NE(compiled.log.find("error"), std::string::npos) << compiled.log;
}

INSTANTIATE_TEST_SUITE_P(Chips, Compile, ::testing::Values(75u, 80u, 90u, 100u),
                         [](const auto& info) { return "sm_" + std::to_string(info.param); });

}  // namespace
}  // namespace ec::kernels::cuda
