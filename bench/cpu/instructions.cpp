// ec_bench_instructions FILE [--record]: counts the instructions of encode calls, and of decode calls with a
// signature that no call before had ("plan"), by stepping through one call of each. Compares the counts with
// those recorded in FILE (bench/results/cpu-instructions.json), so that a kernel or a call that has become
// longer shows on a machine whose clock tells nothing.
//   --record   writes FILE, with the compiler that made this program
// To be built with optimisation. Counts of one program repeat. Another compiler makes another program, so its
// tolerance is wider.
// Exit status: 0; 1 if a count is too high or not recorded; 2 for a command line or file that cannot be used;
// 77 if nothing can be counted here.
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ec/ec.h"
#include "kernels/backends.hpp"
#include "plugin/codec/codec.hpp"

namespace {

using ec::kernels::Status;

constexpr auto technique = ec::gf::Technique::reed_sol_van;
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
  std::vector<ec::kernels::Source> sources;
  std::vector<ec::kernels::Target> targets;
};

using Call = std::function<Status()>;

/// Through the C interface. The decode makes the first m chunks anew.
Call library_call(const Counted& c, const Stripe& stripe) {
  const auto* best = ec::kernels::find_backend("x86-gfni512");
  const ec::codec::Code code(technique, c.k, c.m);
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
  ec::kernels::Backend* avx2 = ec::kernels::find_backend("x86-avx2");
  if (c.contestant.starts_with("codec")) {
    static const std::vector backends{avx2, ec::kernels::find_backend("reference")};
    static ec::codec::Validator sampled({.every = 1'000'000'000, .whole = false});
    auto& validator = c.contestant == "codec" ? ec::codec::no_validation() : sampled;
    const auto codec = std::make_shared<ec::codec::Codec>(
        technique, c.k, c.m,
        ec::codec::Router(ec::codec::BackendChoice::automatic, 0, ec::codec::default_costs(), backends,
                          ec::codec::stats(), validator));
    return [codec, &stripe, &c] { return codec->encode(stripe.sources, stripe.targets, c.bytes); };
  }
  const auto code = std::make_shared<ec::codec::Code>(technique, c.k, c.m);
  if (c.contestant == "plan")
    return [avx2, code, &stripe, &c, number = 0u]() mutable {
      const auto lost = ec::gf::ChunkSet::first(c.m);
      ec::gf::ErasureSignature signature{ec::gf::ChunkSet::first(c.k + c.m) - lost, lost};
      // A chunk that the code does not have, so that the signature is new.
      signature.available.insert(ec::gf::ChunkSet::capacity - 1 - number++);
      const auto plan = code->plan(signature);
      if (plan == nullptr) return Status::fault;
      return avx2->transform({&plan->program, stripe.sources, stripe.targets, c.bytes});
    };
  return [backend = ec::kernels::find_backend(c.contestant), code, &stripe, &c] {
    return backend->transform({&code->encode_program(), stripe.sources, stripe.targets, c.bytes});
  };
}

/// Instructions that a child executes between its two stops, a few of its own among them; nothing where that
/// cannot be counted.
std::optional<std::uint64_t> steps_of(const Call& call) {
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    if (call) static_cast<void>(call());
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

/// Of one call; nothing where this CPU cannot make it or the system allows no stepping.
std::optional<std::uint64_t> instructions_of(const Counted& c) {
  const Stripe stripe(c);
  const Call call = call_of(c, stripe);
  if (call() != Status::ok) return std::nullopt;
  const auto nothing = steps_of(nullptr);
  const auto all = steps_of(call);
  if (!nothing || !all) return std::nullopt;
  return *all - *nothing;
}

nlohmann::json count() {
  auto rows = nlohmann::json::array();
  for (const Counted& c : all_counted()) {
    const auto instructions = instructions_of(c);
    if (!instructions) fmt::print("{} {}+{} cannot be counted here\n", c.contestant, c.k, c.m);
    if (instructions)
      rows.push_back({{"contestant", c.contestant},
                      {"k", c.k},
                      {"m", c.m},
                      {"chunk_bytes", c.bytes},
                      {"instructions_per_call", *instructions}});
  }
  return rows;
}

/// Prints every row beside the recorded one; whether all are within the tolerance.
bool compare(const nlohmann::json& rows, const nlohmann::json& recorded) {
  const bool same_compiler = recorded.at("header").at("compiler") == __VERSION__;
  const double tolerance = same_compiler ? tolerance_same_compiler : tolerance_other_compiler;
  bool sound = true;
  for (const auto& row : rows) {
    double before = 0;
    for (const auto& then : recorded.at("rows"))
      if (then["contestant"] == row["contestant"] && then["k"] == row["k"] && then["m"] == row["m"])
        before = then.at("instructions_per_call");
    const double now = row["instructions_per_call"];
    const bool longer = now > tolerance * before;
    fmt::print("{:14} {:2}+{} {:6} recorded {:6}{}\n", row["contestant"].get<std::string>(),
               row["k"].get<unsigned>(), row["m"].get<unsigned>(), now, before, longer ? " FAILED" : "");
    sound = sound && !longer;
  }
  return sound;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool record = arguments.size() == 2 && arguments[1] == "--record";
  if (arguments.size() != 1 && !record) {
    fmt::print(stderr, "usage: ec_bench_instructions FILE [--record]\n");
    return 2;
  }
  // For libeccoder: validation is on and not due, and no file says that a GPU is better.
  setenv("EC_CUDA_VALIDATE", "sample:1000000000", 1);
  setenv("EC_CUDA_CALIBRATION", "none", 1);
  const auto rows = count();
  if (rows.empty()) return 77;
  if (!record) return compare(rows, nlohmann::json::parse(std::ifstream(arguments[0]))) ? 0 : 1;
  std::ofstream file(arguments[0]);
  file << nlohmann::json{{"header", {{"compiler", __VERSION__}}}, {"rows", rows}}.dump(1) << '\n';
  return file.flush() ? 0 : 2;
} catch (const std::exception& e) {
  fmt::print(stderr, "ec_bench_instructions: {}\n", e.what());
  return 2;
}
