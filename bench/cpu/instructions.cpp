// ec_bench_instructions [--step] CONTESTANT:K+M:BYTES...: what bench/cpu/instructions.py counts the
// instructions of: for each argument, encode calls on chunks of BYTES bytes. CONTESTANT: a back end or
// variant by its name, or codec: whatever the router picks, with all that a call through codec::Codec costs.
// codec-sampled is that with validation on and not due, as in a daemon nearly always; codec-checked with
// every call compared. Or plan: decode calls that each look for the plan of another signature with all m data
// chunks lost, solve it, keep it, expand its matrix and apply it with x86-avx2.
//   without --step   makes 16 calls in functions that callgrind is told to look for
//   --step           counts itself, by stepping through one call, and prints a line for each argument: for
//                    instructions that valgrind does not know (AVX-512, GFNI)
// ec_bench_instructions --compiler prints what built it.
// Exit status: 0; 2 for an argument that cannot be used; 3 for a back end that does not run here, or a system
// that allows no stepping.
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/backends.hpp"
#include "plugin/codec/codec.hpp"

namespace {

using ec::kernels::Source;
using ec::kernels::Status;
using ec::kernels::Target;

struct Counted {
  std::string_view contestant;
  unsigned k = 0;
  unsigned m = 0;
  std::size_t bytes = 0;
};

template <class Number>
bool take(std::string_view& text, Number& number, char end) {
  const auto [at, error] = std::from_chars(text.begin(), text.end(), number);
  if (error != std::errc() || (at != text.end() && *at != end)) return false;
  text.remove_prefix(static_cast<std::size_t>(at - text.begin()) + (at != text.end()));
  return true;
}

std::optional<Counted> parse(std::string_view text) {
  Counted c;
  const auto colon = std::min(text.find(':'), text.size());
  c.contestant = text.substr(0, colon);
  text.remove_prefix(std::min(colon + 1, text.size()));
  if (!take(text, c.k, '+') || !take(text, c.m, ':') || !take(text, c.bytes, '\0')) return std::nullopt;
  if (!ec::gf::shape_error(ec::gf::Technique::reed_sol_van, c.k, c.m).empty() || c.bytes == 0)
    return std::nullopt;
  return c;
}

/// The chunks lie a few cache lines apart beyond their length, each on a cache line.
class Stripe {
 public:
  explicit Stripe(const Counted& c) : stride_((c.bytes + 63) / 64 * 64 + 17 * 64) {
    bytes_.resize(stride_ * (c.k + c.m) + 64);
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::uint8_t>(i * 167 >> 3);
    for (unsigned i = 0; i < c.k; ++i) sources.push_back({chunk(i)});
    for (unsigned i = 0; i < c.m; ++i) targets.push_back({chunk(c.k + i)});
  }

  std::vector<Source> sources;
  std::vector<Target> targets;

 private:
  std::uint8_t* chunk(unsigned i) {
    const auto start = (reinterpret_cast<std::uintptr_t>(bytes_.data()) + 63) / 64 * 64;
    return reinterpret_cast<std::uint8_t*>(start) + i * stride_;
  }
  std::size_t stride_;
  std::vector<std::uint8_t> bytes_;
};

using Encode = std::function<Status()>;

/// A call that decodes with a signature that no call before had: one more chunk that the code does not have
/// is available, and so on.
Encode decode_with_a_new_plan(const Counted& c, const Stripe& stripe) {
  ec::kernels::Backend* backend = ec::kernels::find_backend("x86-avx2");
  if (backend == nullptr) return nullptr;
  return [backend, code = std::make_shared<ec::codec::Code>(ec::gf::Technique::reed_sol_van, c.k, c.m),
          &stripe, &c, number = 0u]() mutable {
    const auto lost = ec::gf::ChunkSet::first(c.m);
    ec::gf::ErasureSignature signature{ec::gf::ChunkSet::first(c.k + c.m) - lost, lost};
    signature.available.insert(ec::gf::ChunkSet::capacity - 1 - number++);
    const auto plan = code->plan(signature);
    if (plan == nullptr) return Status::fault;
    return backend->transform({&plan->program, stripe.sources, stripe.targets, c.bytes});
  };
}

/// The encode call of a contestant on `stripe`; empty if there is no such contestant.
Encode encode_of(const Counted& c, const Stripe& stripe) {
  const auto technique = ec::gf::Technique::reed_sol_van;
  if (c.contestant == "codec" || c.contestant == "codec-sampled" || c.contestant == "codec-checked") {
    static ec::codec::Validator sampled({.every = 1'000'000'000, .whole = false});
    static ec::codec::Validator checked({.every = 1, .whole = false});
    auto& validator = c.contestant == "codec"           ? ec::codec::no_validation()
                      : c.contestant == "codec-sampled" ? sampled
                                                        : checked;
    const auto codec = std::make_shared<ec::codec::Codec>(
        technique, c.k, c.m,
        ec::codec::Router(ec::codec::BackendChoice::automatic, 0, ec::codec::default_costs(),
                          ec::kernels::backends(), ec::codec::stats(), validator));
    return [codec, &stripe, &c] { return codec->encode(stripe.sources, stripe.targets, c.bytes); };
  }
  if (c.contestant == "plan") return decode_with_a_new_plan(c, stripe);
  ec::kernels::Backend* backend = ec::kernels::find_backend(c.contestant);
  if (backend == nullptr) return nullptr;
  return [backend, code = ec::codec::Code::get(technique, c.k, c.m), &stripe, &c] {
    return backend->transform({&code->encode_program(), stripe.sources, stripe.targets, c.bytes});
  };
}

}  // namespace

extern "C" {

/// Callgrind counts while this runs, ...
[[gnu::noinline]] void counted_calls(const Encode& encode) {
  for (unsigned i = 0; i < 16; ++i) static_cast<void>(encode());
}

/// ... and writes its counts down when this returns.
[[gnu::noinline]] void count_argument(const Encode& encode) { counted_calls(encode); }
}

namespace {

/// Instructions that a child executes between its two stops, a few of its own among them; nothing where that
/// cannot be counted.
std::optional<std::uint64_t> steps_of(const Encode& encode) {
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    if (encode) static_cast<void>(encode());
    raise(SIGSTOP);
    _exit(0);
  }
  std::uint64_t steps = 0;
  int status = 0;
  bool counting = waitpid(child, &status, 0) == child && WIFSTOPPED(status);
  while (counting) {
    counting = ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0 &&
               waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
    ++steps;
  }
  const bool at_second_stop = WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP;
  if (WIFSTOPPED(status)) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  if (!at_second_stop) return std::nullopt;
  return steps;
}

/// 0, or the exit status that says why not.
int run(const Counted& c, bool step) {
  const Stripe stripe(c);
  const Encode encode = encode_of(c, stripe);
  if (!encode) return 2;
  if (encode() != Status::ok) return 3;
  if (!step) {
    count_argument(encode);
    return 0;
  }
  const auto nothing = steps_of(nullptr);
  const auto all = steps_of(encode);
  if (!nothing || !all) return 3;
  fmt::print("{}\n", *all - *nothing);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (arguments == std::vector<std::string_view>{"--compiler"}) {
    fmt::print("{}\n", __VERSION__);
    return 0;
  }
  const bool step = !arguments.empty() && arguments.front() == "--step";
  if (step) arguments.erase(arguments.begin());
  for (const auto argument : arguments) {
    const auto counted = parse(argument);
    if (const int error = counted ? run(*counted, step) : 2) {
      fmt::print(
          stderr, "ec_bench_instructions: {}: {}\n", argument,
          error == 3
              ? "cannot be counted on this machine"
              : "must be CONTESTANT:K+M:BYTES with a back end of this build, codec or plan, a shape of "
                "reed_sol_van, and at least 1 byte");
      return error;
    }
  }
  return 0;
}
