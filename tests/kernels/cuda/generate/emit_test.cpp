// What the compiler says of emitted programs. Without NVRTC these are skipped, and say so. That a program
// does what its schedule says is proven on a GPU, by the conformance suite: inline PTX runs nowhere else.
#include "kernels/cuda/generate/emit.hpp"

#include <gtest/gtest.h>

#include <regex>

#include "gf/generator.hpp"
#include "kernels/cuda/generate/nvrtc.hpp"

namespace ec::kernels::cuda {
namespace {

gf::Matrix coding(unsigned k, unsigned m) { return gf::coding_matrix(gf::Technique::cauchy, k, m); }

std::string program(const gf::Matrix& matrix) { return emit(matrix, ProgramForm::transform, 90); }

constexpr ProgramForm forms[] = {ProgramForm::transform, ProgramForm::accumulate, ProgramForm::batch};

struct Report {
  unsigned registers = 0, spilled_bytes = 0, stack_bytes = 0;
  bool found = false;
};

/// From the compiler's report of the kernel (its other functions come after it).
Report report_of(const std::string& log) {
  Report r;
  std::smatch match;
  static const std::regex spill(
      R"((\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads)"),
      used(R"(Used (\d+) registers)");
  if (!std::regex_search(log, match, used)) return r;
  r.registers = static_cast<unsigned>(std::stoul(match[1]));
  auto at = std::sregex_iterator(log.begin(), log.end(), spill);
  r.found = at != std::sregex_iterator();
  for (; at != std::sregex_iterator(); ++at) {
    r.stack_bytes += static_cast<unsigned>(std::stoul((*at)[1]));
    r.spilled_bytes += static_cast<unsigned>(std::stoul((*at)[2]) + std::stoul((*at)[3]));
  }
  return r;
}

TEST(Emit, IsTheTextThatWasMeasured) {
  // FNV-1a: another text is another program, to be measured anew, and no cache has it.
  const auto digest = [](const std::string& text) {
    std::uint64_t d = 0xcbf29ce484222325;
    for (const char c : text) d = (d ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return d;
  };
  std::uint64_t all = 0;
  for (const auto& [k, m] : {std::pair{1u, 1u}, {4u, 2u}, {8u, 3u}, {10u, 4u}, {20u, 4u}, {32u, 8u}})
    for (const ProgramForm form : forms)
      for (const unsigned chip : {75u, 80u, 90u, 120u})
        all = 31 * all + digest(emit(coding(k, m), form, chip));
  EXPECT_EQ(all, 16066262739337320948u);
  EXPECT_NE(program(coding(10, 4)), program(coding(10, 3)));
}

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
                             {20u, 4u}})
    for (const ProgramForm form : forms) {
      if (form != ProgramForm::transform && k != 10) continue;
      const std::string shape = std::to_string(k) + "_" + std::to_string(m);
      const Compiled compiled =
          compile(emit(coding(k, m), form, GetParam()), GetParam(), {"--ptxas-options=-v"});
      ASSERT_TRUE(compiled) << shape << "\n" << compiled.log;
      const Report report = report_of(compiled.log);
      ASSERT_TRUE(report.found) << compiled.log;
      EXPECT_EQ(report.spilled_bytes + report.stack_bytes, 0u) << shape << "\n" << compiled.log;
      EXPECT_LE(report.registers, 128u) << shape;
      RecordProperty("registers_" + shape, static_cast<int>(report.registers));
    }
}

TEST_P(Compile, TakesAMatrixOfZerosAndOfOnes) {
  gf::Matrix matrix(2, 3);
  EXPECT_TRUE(compile(program(matrix), GetParam()));
  for (unsigned c = 0; c < 3; ++c) matrix(0, c) = matrix(1, c) = 1;
  EXPECT_TRUE(compile(program(matrix), GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Chips, Compile, ::testing::Values(75u, 80u, 90u, 100u, 120u),
                         [](const auto& info) { return "sm_" + std::to_string(info.param); });

}  // namespace
}  // namespace ec::kernels::cuda
