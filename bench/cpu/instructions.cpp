// `ec_bench instructions`: counts the instructions of calls by stepping through one of each: a kernel or a
// call that has become longer shows on a machine whose clock tells nothing. What is compared with a recorded
// report is the same on every CPU: the instructions of this program, and how often it calls other libraries.
// How long those take depends on the variant that the C library picks for a CPU.
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
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/common/report.hpp"
#include "bench/cpu/contestants.hpp"
#include "bench/subcommands.hpp"

// Where the code of this program begins and ends, by the linker.
extern "C" const char __executable_start, etext;

namespace ec::bench {
namespace {

constexpr double tolerance_same_compiler = 1.05;
constexpr double tolerance_other_compiler = 1.25;

using Call = std::function<void()>;

/// What a child executes between its two stops, a few instructions of its own among it.
struct Counts {
  std::uint64_t own = 0;            ///< instructions of this program
  std::uint64_t library_calls = 0;  ///< how often it went into other code
  std::uint64_t all = 0;            ///< instructions
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
    ++counts.all;
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
std::optional<Counts> counts_of(const std::string& coder, const Case& c) {
  const auto here = all_coders();
  if (std::ranges::find(here, coder) == here.end()) return std::nullopt;
  const Contestant contestant = coding_contestants(c, 1, 17 * 64, {coder}, {}).back();
  const Call call = [&] { contestant.run(0); };
  call();
  const auto nothing = counts_of(Call{});
  const auto all = counts_of(call);
  if (!nothing || !all) return std::nullopt;
  return Counts{all->own - nothing->own, all->library_calls - nothing->library_calls,
                all->all - nothing->all};
}

struct Counted {
  std::string coder;
  Case what;
};

/// All so short that every core walks them alike. decode-miss needs all m coding chunks, and a plan that is
/// solved, kept and expanded in the call.
std::vector<Counted> all_counted() {
  constexpr auto technique = gf::Technique::reed_sol_van;
  std::vector<Counted> all;
  for (const auto& [k, m] : {Shape{4, 2}, {8, 3}, {10, 4}, {16, 4}}) {
    for (const char* coder : {"x86-avx2", "x86-avx512", "x86-gfni256", "x86-gfni512"})
      all.push_back({coder, {"encode", technique, k, m, 1024}});
    all.push_back({"x86-avx2", {"decode-miss", technique, k, m, 64}});
    for (const char* op : {"encode", "decode"}) all.push_back({"eccoder", {op, technique, k, m, 64}});
  }
  return all;
}

/// A report of this sub-command: its compiler, and what it counted by coder, operation and shape.
struct Recorded {
  std::string compiler;
  std::map<std::string, Counts> rows;
};

/// Throws UsageError.
Recorded read_recorded(const std::string& name) {
  std::ifstream file(name);
  if (!file) throw UsageError(fmt::format("--recorded {}: must be a report of ec_bench instructions", name));
  Recorded recorded;
  constexpr std::string_view compiler = "# compiler: ";
  for (std::string line; std::getline(file, line);) {
    char coder[32], op[32];
    unsigned k = 0, m = 0;
    Counts counts;
    if (line.starts_with(compiler)) recorded.compiler = line.substr(compiler.size());
    if (std::sscanf(line.c_str(), "%31[^,],%31[^,],%u,%u,%*u,%lu,%lu", coder, op, &k, &m, &counts.own,
                    &counts.library_calls) == 6)
      recorded.rows[fmt::format("{} {} {}+{}", coder, op, k, m)] = counts;
  }
  return recorded;
}

int run(const CommandLine& line, const std::vector<std::string>& arguments) {
  std::optional<Recorded> recorded;
  if (line.given("recorded")) recorded = read_recorded(line.text("recorded"));
  Report report(line.text("csv"));
  report.begin(make_header("", "instructions", arguments, {{"compiler", __VERSION__}}));
  bool sound = true, counted = false;
  for (const auto& [coder, c] : all_counted()) {
    const auto counts = counts_of(coder, c);
    // A call of the library is as long as the kernel is that it takes here.
    const std::string as = coder == "eccoder" ? coder + " by " + all_coders().front() : coder;
    const std::string name = fmt::format("{} {} {}+{}", as, c.op, c.k, c.m);
    if (!counts) {
      fmt::print("{} cannot be counted here\n", name);
      continue;
    }
    counted = true;
    report.add({{"coder", as},
                {"op", c.op},
                {"k", c.k},
                {"m", c.m},
                {"chunk_bytes", c.chunk_bytes},
                {"instructions", counts->own},
                {"library_calls", counts->library_calls},
                {"with_libraries", counts->all}},
               true);
    if (!recorded) continue;
    const auto found = recorded->rows.find(name);
    if (found == recorded->rows.end()) {
      fmt::print("not recorded: {}\n", name);
      continue;
    }
    const Counts& before = found->second;
    const double tolerance =
        recorded->compiler == __VERSION__ ? tolerance_same_compiler : tolerance_other_compiler;
    const auto is_more = [&](std::uint64_t now, std::uint64_t then) {
      return static_cast<double>(now) > tolerance * static_cast<double>(then);
    };
    if (!is_more(counts->own, before.own) && !is_more(counts->library_calls, before.library_calls)) continue;
    sound = false;
    fmt::print("FAILED: {}: recorded are {} instructions and {} library calls\n", name, before.own,
               before.library_calls);
  }
  const int status = report.finish();
  return !counted ? 77 : sound ? status : 1;
}

}  // namespace

int run_instructions(const std::vector<std::string>& arguments) {
  // For libeccoder: validation is on and not due, and no file says that a GPU is better.
  setenv("EC_CUDA_VALIDATE", "sample:1000000000", 1);
  CommandLine line("instructions");
  line.add("recorded", "",
           "fail where a count is higher than in this report, by 5 % (another compiler: 25 %)");
  add_report_option(line);
  return line.run(arguments, [&] { return run(line, arguments); });
}

}  // namespace ec::bench
