// The thread that compiles must not outlive the compiler's library when a process ends.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "gf/generator.hpp"
#include "kernels/cuda/generate/program_compiler.hpp"

namespace ec::test {
namespace {

std::shared_ptr<kernels::cuda::Compilation> ask(unsigned k, unsigned m) {
  return kernels::cuda::ProgramCompiler::instance().ask(gf::coding_matrix(gf::Technique::cauchy, k, m),
                                                        kernels::cuda::ProgramForm::transform, 90);
}

/// While the second program is compiled: the first one has opened the library.
[[noreturn]] void exit_while_compiling(unsigned microseconds) {
  alarm(60);
  // No directory: nothing is found compiled.
  setenv("XDG_CACHE_HOME", "/proc/none", 1);
  const auto first = ask(2, 1);
  while (first->cubin() == nullptr && first->failure().empty()) usleep(1000);
  usleep(20'000);
  const auto second = ask(30, 8);
  usleep(microseconds);
  std::exit(second == nullptr ? 1 : 0);
}

TEST(CompilerDeathTest, AProcessMayEndWhileItCompiles) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const unsigned delay : {0u, 20'000u, 100'000u})
    EXPECT_EXIT(exit_while_compiling(delay), testing::ExitedWithCode(0), "") << delay << " us";
}

}  // namespace
}  // namespace ec::test
