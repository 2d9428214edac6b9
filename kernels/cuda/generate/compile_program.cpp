// The program that compiles generated programs, embedded in the plugin and run as a process of its own
// (compiler_process.hpp). One compilation, from standard input to standard output.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <new>
#include <utility>

#include "kernels/cuda/generate/compiler_process.hpp"
#include "kernels/cuda/generate/nvrtc.hpp"

namespace ec::kernels::cuda {
namespace {

using Kind = CompilerReply::Kind;

/// A compiler must not take a core from a storage daemon that has use for it.
constexpr int niceness = 10;

/// Standard input, which is a file.
std::string read_input() {
  struct stat input {};
  fstat(STDIN_FILENO, &input);
  std::string text(static_cast<std::size_t>(input.st_size), '\0');
  const ssize_t n = pread(STDIN_FILENO, text.data(), text.size(), 0);
  text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  return text;
}

CompilerReply answer(const char* chip) try {
  if (std::string missing = nvrtc_missing(); !missing.empty()) return {Kind::unavailable, std::move(missing)};
  Compiled compiled = compile(read_input(), static_cast<unsigned>(std::atoi(chip)));
  if (!compiled) return {Kind::refused, std::move(compiled.log)};
  return {Kind::cubin, std::move(compiled.cubin)};
} catch (const std::bad_alloc&) {
  return {Kind::failed, "out of memory"};
}

}  // namespace
}  // namespace ec::kernels::cuda

int main(int count, char** arguments) {
  using namespace ec::kernels::cuda;
  // Nobody waits for the answer when the host is gone.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "ec_cuda_compile");
  setpriority(PRIO_PROCESS, 0, niceness);
  if (count != 2) return 1;
#ifdef SYS_close_range
  syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
#endif
  CompilerReply reply = answer(arguments[1]);
  CompilerReplyHead head{reply.kind, reply.body.size()};
  const iovec parts[] = {{&head, sizeof head}, {reply.body.data(), reply.body.size()}};
  const ssize_t written = writev(STDOUT_FILENO, parts, 2);
  // What NVRTC has registered for the end of a process need not run.
  _exit(written == static_cast<ssize_t>(sizeof head + reply.body.size()) ? 0 : 1);
}
