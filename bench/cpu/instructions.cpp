// `ec_bench instructions`: counts the instructions of calls by stepping through one of each: a kernel or a
// call that has become longer shows on a machine whose clock tells nothing. The same on every CPU are the
// instructions of this program, and how often it calls other libraries. How long those take depends on the
// variant that the C library picks for a CPU.
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __x86_64__
#include <sys/reg.h>
#endif

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

#include "bench/common/report.hpp"
#include "bench/cpu/contestants.hpp"

// Where the code of this program begins and ends, by the linker.
extern "C" const char __executable_start, etext;

namespace ec::bench {
namespace {

using Call = std::function<void()>;

/// What a child executes between its two stops, a few instructions of its own among it.
struct Counts {
  std::uint64_t own = 0;            ///< instructions of this program
  std::uint64_t library_calls = 0;  ///< how often it went into other code
};

/// Whether the next instruction of the stopped child is one of this program.
bool is_at_own_code([[maybe_unused]] pid_t child) {
#ifdef __x86_64__
  const auto at = static_cast<std::uintptr_t>(ptrace(PTRACE_PEEKUSER, child, 8 * RIP, nullptr));
  return at >= reinterpret_cast<std::uintptr_t>(&__executable_start) &&
         at < reinterpret_cast<std::uintptr_t>(&etext);
#else
  return false;
#endif
}

/// Nothing where that cannot be counted.
std::optional<Counts> counts_of(const Call& call) {
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    if (call) call();
    raise(SIGSTOP);
    _exit(0);
  }
  Counts counts;
  int status = 0;
  bool counting = waitpid(child, &status, 0) == child && WIFSTOPPED(status);
  for (bool was_own = false; counting;) {
    const bool own = is_at_own_code(child);
    counts.own += own;
    counts.library_calls += was_own && !own;
    was_own = own;
    counting = ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0 &&
               waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
  }
  const bool at_second_stop = WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP;
  if (WIFSTOPPED(status)) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  if (!at_second_stop || counts.own == 0) return std::nullopt;
  return counts;
}

/// Of one call; nothing where this CPU cannot make it or the system allows no stepping.
std::optional<Counts> counts_of(const std::string& coder, const CpuCase& c) {
  const auto here = all_coders();
  if (std::ranges::find(here, coder) == here.end()) return std::nullopt;
  const Contestant contestant = coding_contestants(c, 1, {coder}, {}).back();
  const Call call = [&] { contestant.run(0); };
  call();
  const auto nothing = counts_of(Call{});
  const auto all = counts_of(call);
  if (!nothing || !all) return std::nullopt;
  return Counts{all->own - nothing->own, all->library_calls - nothing->library_calls};
}

int count(const CommandLine& line) {
  // For libeccoder: validation is on and not due.
  setenv("EC_CUDA_VALIDATE", "sample:1000000000", 1);
  Report report(line, {{"compiler", __VERSION__}});
  bool counted = false;
  const auto add = [&](const std::string& coder, const char* op, Shape shape, std::size_t chunk_bytes) {
    const CpuCase c{{op, gf::Technique::reed_sol_van, shape.first, shape.second, chunk_bytes}, scattered};
    // A call of the library is as long as the kernel is that it takes here.
    const std::string as = coder == "eccoder" ? coder + " by " + all_coders().front() : coder;
    const auto counts = counts_of(coder, c);
    counted = counted || counts;
    if (counts)
      report.add(row_of(
          c, {{"coder", as}, {"instructions", counts->own}, {"library_calls", counts->library_calls}}));
    else
      report.note("cannot be counted here", fmt::format("{} {} {}+{}", as, c.op, c.k, c.m));
  };
  // All so short that every core walks them alike. decode-miss needs all m coding chunks, and a plan that is
  // solved, kept and expanded in the call.
  for (const Shape& shape : {Shape{4, 2}, {8, 3}, {10, 4}, {16, 4}}) {
    for (const char* coder : {"x86-avx2", "x86-avx512", "x86-gfni256", "x86-gfni512"})
      add(coder, "encode", shape, 1024);
    add("x86-avx2", "decode-miss", shape, 64);
    for (const char* op : {"encode", "decode"}) add("eccoder", op, shape, 64);
  }
  return counted ? report.finish() : 77;
}

}  // namespace

Subcommand instructions() { return {"instructions", {}, count}; }

}  // namespace ec::bench
