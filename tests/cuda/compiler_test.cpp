// The thread that compiles must not outlive the compiler's library when a process ends.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "gf/generator.hpp"
#include "kernels/cuda/program_compiler.hpp"

namespace ec::test {
namespace {

[[noreturn]] void exit_while_compiling(unsigned microseconds) {
  // No directory: nothing is found compiled.
  setenv("XDG_CACHE_HOME", "/proc/none", 1);
  const auto compilation = kernels::cuda::ProgramCompiler::instance().ask(
      gf::coding_matrix(gf::Technique::cauchy, 30, 8), kernels::cuda::ProgramForm::transform, 90);
  usleep(microseconds);
  std::exit(compilation == nullptr ? 1 : 0);
}

TEST(CompilerDeathTest, AProcessMayEndWhileItCompiles) {
  // Long enough for the library to be open, too short for the program to be compiled. Asked in a process of
  // its own, so that here no library is loaded yet.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const unsigned delay : {300'000u, 400'000u, 500'000u, 700'000u})
    EXPECT_EXIT((alarm(20), exit_while_compiling(delay)), testing::ExitedWithCode(0), "") << delay << " us";
}

}  // namespace
}  // namespace ec::test
