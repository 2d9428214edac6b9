// The compiler in its process: what it answers, what becomes of one that misbehaves, and of a host that ends.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "gf/generator.hpp"
#include "kernels/cuda/generate/compiler_process.hpp"
#include "kernels/cuda/generate/generated_program.hpp"
#include "tests/common/child.hpp"
#include "tests/drivers/fault/sites.hpp"
#include "tests/kernels/cuda/emulated.hpp"

namespace ec::test {
namespace {

using kernels::cuda::compiler_program;
using kernels::cuda::CompilerReply;
using kernels::cuda::GeneratedProgram;
using kernels::cuda::ProgramForm;
using kernels::cuda::run_compiler;
using Kind = CompilerReply::Kind;

const std::atomic<bool> go_on{false};

std::string source() {
  return kernels::cuda::emit(gf::coding_matrix(gf::Technique::cauchy, 4, 2), ProgramForm::transform, 90);
}

CompilerReply compile(const std::string& text = source()) {
  return run_compiler(compiler_program(), "90", text, std::chrono::seconds(20), go_on);
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// With the emulated compiler, healthy.
class Compiler : public testing::Test {
 protected:
  void SetUp() override { use_emulated_compiler(); }
  void TearDown() override {
    unsetenv("EC_FAULTS");
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
    EXPECT_EQ(errno, ECHILD);
  }
};

TEST_F(Compiler, Answers) {
  const auto cubin = compile();
  EXPECT_EQ(cubin.kind, Kind::cubin) << cubin.body;
  EXPECT_TRUE(cubin.body.starts_with("EMULATED PROGRAM")) << cubin.body;
  const auto refused = compile("not CUDA");
  EXPECT_EQ(refused.kind, Kind::refused);
  EXPECT_NE(refused.body.find("error"), std::string::npos) << refused.body;
}

/// Each of NVRTC's functions fails, or takes its time. A result that is not looked at costs nothing.
TEST_F(Compiler, EachFunctionOfNvrtcMayFail) {
  const std::string log = testing::TempDir() + "ec-compiler-faults-" + std::to_string(getpid());
  setenv("EC_FAULTS_LOG", log.c_str(), 1);
  for (const std::string_view site : faults::nvrtc_sites)
    for (const std::string what : {"NVRTC_ERROR_COMPILATION", "NVRTC_ERROR_OUT_OF_MEMORY", "slow=5ms"}) {
      std::filesystem::remove(log);
      const std::string before = site == "nvrtcGetErrorString" ? "nvrtcCompileProgram:nth=1:6;" : "";
      const std::string plan = before + std::string(site) + ":nth=1:" + what;
      setenv("EC_FAULTS", plan.c_str(), 1);
      const auto reply = compile();
      const bool harmless = site == "nvrtcDestroyProgram" || site.find("Log") != site.npos ||
                            (what.starts_with("slow") && before.empty());
      EXPECT_EQ(reply.kind, harmless ? Kind::cubin : Kind::refused) << plan << ": " << reply.body;
      EXPECT_NE(content(log).find(site), std::string::npos) << plan << " was not met";
    }
  std::filesystem::remove(log);
  unsetenv("EC_FAULTS_LOG");
}

/// Programs in the compiler's place: misbehaving_compiler.cpp.
TEST_F(Compiler, OneThatMisbehavesIsGivenUp) {
  const std::string program = content(EC_MISBEHAVING_COMPILER);
  struct Case {
    const char* how;
    Kind kind;
    const char* body;
  };
  for (const Case& c : {Case{"hang", Kind::failed, "the compiler did not answer in time"},
                        {"silent", Kind::failed, "the compiler ended without an answer"},
                        {"killed", Kind::failed, "the compiler ended without an answer"},
                        {"garbage", Kind::failed, "the compiler ended without an answer"},
                        {"half", Kind::failed, "the compiler ended without an answer"},
                        {"endless", Kind::failed, "the compiler ended without an answer"},
                        {"deaf", Kind::cubin, "machine code"},
                        {"preload", Kind::cubin, "none"}}) {
    setenv("LD_PRELOAD", "libno-such.so", 1);
    const std::string long_input(1 << 20, 'x');
    const std::chrono::milliseconds deadline(std::string_view(c.how) == "hang" ? 500 : 60'000);
    const auto reply = run_compiler(program, c.how, long_input, deadline, go_on);
    unsetenv("LD_PRELOAD");
    EXPECT_EQ(reply.kind, c.kind) << c.how << ": " << reply.body;
    EXPECT_EQ(reply.body, c.body) << c.how;
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << c.how << " is left";
  }
  const std::atomic<bool> stop{true};
  EXPECT_EQ(run_compiler(program, "hang", {}, std::chrono::hours(1), stop).body, "the process ends");
  EXPECT_EQ(run_compiler("not a program", "90", {}, std::chrono::hours(1), go_on).kind, Kind::unavailable);
}

TEST_F(Compiler, AHostThatTakesItsChildrenDoesNoHarm) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(compile().kind, Kind::cubin);
  std::signal(SIGCHLD, [](int) {
    const int kept = errno;
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    errno = kept;
  });
  for (int i = 0; i < 10; ++i) EXPECT_EQ(compile().kind, Kind::cubin);
  std::signal(SIGCHLD, before);
}

TEST_F(Compiler, AHostMayHaveClosedTheStandardDescriptors) {
  EXPECT_EQ(in_child([&] {
              for (const int fd : {0, 1, 2}) close(fd);
              return compile().kind == Kind::cubin ? 0 : 1;
            }),
            0);
}

/// The device emulated, as the chip that the real compiler makes code for; EC_FAULTS_NEXT_DRIVER and
/// EC_FAULTS_NEXT_NVRTC put real ones in their places.
class CompilerDeathTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv("EC_EMULATED_CHIP", "90", 1);
    use_emulated_compiler();
    EmulatedDevice::SetUp();
    auto o = options();
    o.generate_after_bytes = 0;
    use(o);
  }
  void TearDown() override {
    unsetenv("EC_FAULTS");
    EmulatedDevice::TearDown();
  }

  /// Asks for programs, and ends so much later.
  [[noreturn]] static void end_while_compiling(unsigned microseconds) {
    alarm(60);
    if (!bring_up()) std::exit(2);
    const auto device = kernels::cuda::Devices::instance().current();
    for (const unsigned k : {2u, 30u}) {
      const auto* program = new kernels::Program(gf::coding_matrix(gf::Technique::cauchy, k, 1));
      static_cast<void>(GeneratedProgram::of(*program)->function(device, ProgramForm::transform, 0,
                                                                 GeneratedProgram::Wish::later));
    }
    usleep(microseconds);
    std::exit(0);
  }
};

TEST_F(CompilerDeathTest, AProcessMayEndWhileItCompiles) {
  const char* count = getenv("EC_EXITS");
  // Drawn by the parent: a child runs this test anew, up to its own turn.
  const char* variable = "EC_EXIT_AFTER_US";
  const char* drawn = getenv(variable);
  const std::string of_child = drawn == nullptr ? "" : drawn;
  setenv("EC_FAULTS", "nvrtcCreateProgram:nth=1:slow=50ms;nvrtcCompileProgram:nth=1:slow=100ms", 1);
  std::random_device random;
  for (int i = count == nullptr ? 30 : std::atoi(count); i > 0; --i) {
    const std::string delay = of_child.empty() ? std::to_string(random() % 300'000) : of_child;
    setenv(variable, delay.c_str(), 1);
    EXPECT_EXIT(end_while_compiling(static_cast<unsigned>(std::stoul(delay))), testing::ExitedWithCode(0), "")
        << delay << " us";
  }
  unsetenv(variable);
}

TEST_F(CompilerDeathTest, WhereNoProgramRunsFromMemoryTheOtherKernelsServe) {
  const auto work = [] {
    // What this process writes itself must go to no file.
    if (std::freopen("/dev/null", "w", stdout) == nullptr) std::exit(2);
    const rlimit none{1000, 1000};
    if (!bring_up() || setrlimit(RLIMIT_FSIZE, &none) != 0) std::exit(2);
    const auto device = kernels::cuda::Devices::instance().current();
    for (const unsigned k : {2u, 3u}) {
      const kernels::Program program(gf::coding_matrix(gf::Technique::cauchy, k, 1));
      const auto* generated = GeneratedProgram::of(program);
      using Wish = GeneratedProgram::Wish;
      if (generated->function(device, ProgramForm::transform, 0, Wish::now) != nullptr) std::exit(3);
      if (generated->failure(ProgramForm::transform).find("into memory") == std::string::npos) std::exit(4);
    }
    const std::string line = "ec_cuda: no kernels are generated, those for any matrix serve: ";
    std::exit(log_.find(line) != log_.npos && log_.find(line) == log_.rfind(line) ? 0 : 5);
  };
  EXPECT_EXIT(work(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ec::test
