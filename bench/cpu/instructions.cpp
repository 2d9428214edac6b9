// `ec_bench instructions`: counts the instructions of encode calls, and of decode calls with a signature that
// no call before had ("plan"), by stepping through one call of each: a kernel or a call that has become
// longer shows on a machine whose clock tells nothing. What is compared with a recorded report is the same on
// every CPU: the instructions of this program, and how often it calls other libraries. How long those take
// depends on the variant that the C library picks for a CPU.
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __x86_64__
#include <sys/reg.h>
#endif

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/common/report.hpp"
#include "bench/subcommands.hpp"
#include "ec/ec.h"
#include "kernels/backends.hpp"
#include "plugin/codec/codec.hpp"

// Where the code of this program begins and ends, by the linker.
extern "C" const char __executable_start, etext;

namespace ec::bench {
namespace {

using kernels::Status;

constexpr auto technique = gf::Technique::reed_sol_van;
constexpr double tolerance_same_compiler = 1.05;
constexpr double tolerance_other_compiler = 1.25;

/// All so short that every core walks them alike. contestant: a back end by its name. codec: a call through
/// codec::Codec, which routes it to x86-avx2. codec-sampled: that with validation on and not due, as in a
/// daemon nearly always. plan: decodes with x86-avx2 what needs all m coding chunks and a plan that is
/// solved, kept and expanded in the call. eccoder, eccoder-decode: a call of libeccoder's C interface, by
/// x86-gfni512, that finds its plan.
struct Counted {
  std::string contestant;
  unsigned k;
  unsigned m;
  std::size_t bytes;
};

std::vector<Counted> all_counted() {
  std::vector<Counted> all{{"codec-sampled", 4, 2, 1024}};
  for (const char* contestant : {"codec", "plan", "x86-avx2", "x86-avx512", "x86-gfni256", "x86-gfni512"})
    for (const auto& [k, m] : {std::pair{4u, 2u}, {8u, 3u}, {10u, 4u}, {16u, 4u}})
      all.push_back({contestant, k, m, contestant == std::string("plan") ? 64u : 1024u});
  for (const char* contestant : {"eccoder", "eccoder-decode"})
    for (const auto& [k, m] : {std::pair{4u, 2u}, {10u, 4u}}) all.push_back({contestant, k, m, 64});
  return all;
}

/// The chunks lie a few cache lines apart beyond their length, each on a cache line.
struct Stripe {
  explicit Stripe(const Counted& c) {
    stride = c.bytes + 17 * 64;
    bytes.resize(stride * (c.k + c.m) + 64);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 167 >> 3);
    first = bytes.data() + 63 - (reinterpret_cast<std::uintptr_t>(bytes.data()) + 63) % 64;
    for (unsigned i = 0; i < c.k; ++i) sources.push_back({place(i)});
    for (unsigned i = 0; i < c.m; ++i) targets.push_back({place(c.k + i)});
  }
  std::uint8_t* place(unsigned chunk) const { return first + chunk * stride; }

  std::vector<std::uint8_t> bytes;
  std::size_t stride;
  std::uint8_t* first;
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
};

using Call = std::function<Status()>;

/// Through the C interface. The decode makes the first m chunks anew.
Call library_call(const Counted& c, const Stripe& stripe) {
  const auto* best = kernels::find_backend("x86-gfni512");
  const codec::Code code(technique, c.k, c.m);
  if (best == nullptr || !best->supports({&code.encode_program(), stripe.sources, stripe.targets, c.bytes}))
    return [] { return Status::unsupported; };
  ec_codec* made = nullptr;
  if (ec_codec_create(c.k, c.m, EC_REED_SOL_VAN, &made) != 0) throw std::runtime_error(ec_error_text());
  const std::shared_ptr<ec_codec> codec(made, ec_codec_destroy);
  std::vector<ec_source> data, left;
  std::vector<ec_target> coding, lost;
  std::vector<unsigned> available, wanted;
  for (const auto& source : stripe.sources) data.push_back({source.data, EC_PAGEABLE});
  for (const auto& target : stripe.targets) coding.push_back({target.data, EC_PAGEABLE});
  if (c.contestant == "eccoder")
    return [=, &c] {
      return ec_encode(codec.get(), 1, data.data(), coding.data(), c.bytes) == 0 ? Status::ok : Status::fault;
    };
  for (unsigned chunk = 0; chunk < c.k + c.m; ++chunk) {
    std::uint8_t* const place = stripe.place(chunk);
    if (chunk < c.m) {
      wanted.push_back(chunk);
      lost.push_back({place, EC_PAGEABLE});
    } else {
      available.push_back(chunk);
      left.push_back({place, EC_PAGEABLE});
    }
  }
  return [=, &c] {
    return ec_decode(codec.get(), 1, available.data(), available.size(), left.data(), wanted.data(),
                     wanted.size(), lost.data(), c.bytes) == 0
               ? Status::ok
               : Status::fault;
  };
}

/// The call on `stripe`.
Call call_of(const Counted& c, const Stripe& stripe) {
  if (c.contestant.starts_with("eccoder")) return library_call(c, stripe);
  kernels::Backend* avx2 = kernels::find_backend("x86-avx2");
  if (c.contestant.starts_with("codec")) {
    static const std::vector backends{avx2, kernels::find_backend("reference")};
    static codec::Validator sampled({.every = 1'000'000'000, .whole = false});
    auto& validator = c.contestant == "codec" ? codec::no_validation() : sampled;
    const auto codec = std::make_shared<codec::Codec>(
        technique, c.k, c.m,
        codec::Router(codec::BackendChoice::automatic, 0, codec::default_costs(), backends, codec::stats(),
                      validator));
    return [codec, &stripe, &c] { return codec->encode(stripe.sources, stripe.targets, c.bytes); };
  }
  const auto code = std::make_shared<codec::Code>(technique, c.k, c.m);
  if (c.contestant == "plan")
    return [avx2, code, &stripe, &c, number = 0u]() mutable {
      const auto lost = gf::ChunkSet::first(c.m);
      gf::ErasureSignature signature{gf::ChunkSet::first(c.k + c.m) - lost, lost};
      // A chunk that the code does not have, so that the signature is new.
      signature.available.insert(gf::ChunkSet::capacity - 1 - number++);
      const auto plan = code->plan(signature);
      if (plan == nullptr) return Status::fault;
      return avx2->transform({&plan->program, stripe.sources, stripe.targets, c.bytes});
    };
  return [backend = kernels::find_backend(c.contestant), code, &stripe, &c] {
    return backend->transform({&code->encode_program(), stripe.sources, stripe.targets, c.bytes});
  };
}

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
    if (call) static_cast<void>(call());
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
std::optional<Counts> counts_of(const Counted& c) {
  const Stripe stripe(c);
  const Call call = call_of(c, stripe);
  if (call() != Status::ok) return std::nullopt;
  const auto nothing = counts_of(Call{});
  const auto all = counts_of(call);
  if (!nothing || !all) return std::nullopt;
  return Counts{all->own - nothing->own, all->library_calls - nothing->library_calls,
                all->all - nothing->all};
}

/// A report of this sub-command: its compiler, and what it counted by coder and shape.
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
    char coder[32];
    unsigned k = 0, m = 0;
    Counts counts;
    if (line.starts_with(compiler)) recorded.compiler = line.substr(compiler.size());
    if (std::sscanf(line.c_str(), "%31[^,],%u,%u,%*u,%lu,%lu", coder, &k, &m, &counts.own,
                    &counts.library_calls) == 5)
      recorded.rows[fmt::format("{} {}+{}", coder, k, m)] = counts;
  }
  return recorded;
}

int run(const CommandLine& line, const std::vector<std::string>& arguments) {
  std::optional<Recorded> recorded;
  if (line.given("recorded")) recorded = read_recorded(line.text("recorded"));
  Report report(line.text("csv"));
  report.begin(make_header("", "instructions", arguments, {{"compiler", __VERSION__}}));
  bool sound = true, counted = false;
  for (const Counted& c : all_counted()) {
    const std::string name = fmt::format("{} {}+{}", c.contestant, c.k, c.m);
    const auto counts = counts_of(c);
    if (!counts) {
      fmt::print("{} cannot be counted here\n", name);
      continue;
    }
    counted = true;
    report.add({{"coder", c.contestant},
                {"k", c.k},
                {"m", c.m},
                {"chunk_bytes", c.bytes},
                {"instructions", counts->own},
                {"library_calls", counts->library_calls},
                {"with_libraries", counts->all}},
               true);
    if (!recorded) continue;
    const Counts before = recorded->rows[name];
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
  setenv("EC_CUDA_CALIBRATION", "none", 1);
  CommandLine line("instructions");
  line.add("recorded", "",
           "fail where a count is higher than in this report, by 5 % (another compiler: 25 %)");
  add_report_option(line);
  return line.run(arguments, [&] { return run(line, arguments); });
}

}  // namespace ec::bench
