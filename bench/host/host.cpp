// `ec_bench host`: lines the codec up on known stripes, in one process or in many, and sets what it does
// beside the ceiling of the link.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "bench/common/report.hpp"
#include "bench/common/stripes.hpp"
#include "bench/host/link.hpp"
#include "bench/host/processes.hpp"
#include "bench/host/result.hpp"
#include "bench/subcommands.hpp"
#include "kernels/device_stats.hpp"
#include "plugin/codec/codec.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::bench {
namespace {

using kernels::Residence;

constexpr std::size_t mib = std::size_t{1} << 20, gib = std::size_t{1} << 30;
/// Of the stripes that a thread takes turns on.
constexpr std::size_t most_bytes_a_thread = 512 * mib;
/// Stripes of its own that a thread codes one after the other, at most.
constexpr std::size_t most_turns = 16;
/// Of those of them that are checked: chunks may be so long that looking at them would take longer than
/// measuring.
constexpr std::size_t most_bytes_to_check = 64 * mib;

const std::vector<std::string> every_op{"encode", "decode-1", "decode-m"};
const std::vector<std::string> every_backend{"cuda", "x86", "isal", "auto"};
const std::vector<std::string> every_residence{"pageable", "pinned", "device"};

/// One line-up: every coder makes the same calls on stripes of the same memory.
struct HostCase {
  std::string op;  ///< encode, decode-1 (the first data chunk is lost), decode-m (the first m are)
  unsigned k = 0;
  unsigned m = 0;
  std::size_t chunk_bytes = 0;
  Residence residence = Residence::pinned;
  /// The codec with a back end forced (cuda, x86, isal) or not (auto), called by so many threads. Who
  /// measures adds the calls.
  std::vector<Contestant> coders{};

  unsigned targets() const { return op == "decode-1" ? 1 : m; }
  /// Decode writes beside the stripe.
  std::size_t stripe_bytes() const { return (k + m + (op == "encode" ? 0 : targets())) * chunk_bytes; }
  unsigned most_threads() const { return std::ranges::max(coders, {}, &Contestant::threads).threads; }
  std::string words() const {
    return fmt::format("{} {}+{}, chunks of {} bytes, {}", op, k, m, chunk_bytes, kernels::name(residence));
  }
};

struct Settings {
  std::vector<HostCase> cases;
  std::vector<std::string> left_out;
  Pace pace;
  std::size_t largest_bytes = 0;  ///< of the stripes of a case
  std::size_t link_bytes = 0;

  /// As many for one thread as for each of many, so that the stripes of a thread come from the same caches.
  std::size_t turns_of(const HostCase& c) const {
    const std::size_t bytes = std::min(most_bytes_a_thread, largest_bytes / c.most_threads());
    return std::clamp<std::size_t>(bytes / c.stripe_bytes(), 1, most_turns);
  }
};

/// Calls through the codec, with a back end forced or left to the router, by the settings of this node, as in
/// a daemon. Thread safe.
class CodecCalls {
 public:
  CodecCalls(const HostCase& c, const std::string& backend)
      : codec_(technique_for({c.k, c.m}), c.k, c.m, router_for(backend)) {}

  /// One synchronous call.
  kernels::Status run(const Stripes& stripes, std::size_t stripe) const {
    const auto sources = stripes.sources(stripe);
    const auto targets = stripes.targets(stripe);
    const auto& plan = stripes.operation().plan;
    return plan ? codec_.decode(*plan, sources, targets, stripes.chunk_bytes())
                : codec_.encode(sources, targets, stripes.chunk_bytes());
  }
  /// The calls that each back end has finished.
  std::vector<std::uint64_t> ran() const {
    std::vector<std::uint64_t> counts;
    for (std::size_t i = 0; i < kernels::backends().size(); ++i) counts.push_back(stats_.read(i).calls);
    return counts;
  }

 private:
  codec::Router router_for(const std::string& backend) {
    const auto choice = codec::parse_backend_choice(backend == "cuda" ? "gpu" : backend);
    const auto& node = codec::node_settings();
    return {choice.value(), node.threshold_bytes, kernels::backends(), stats_};
  }

  codec::Stats stats_;  ///< of its own, so that others' calls do not count
  codec::Codec codec_;
};

/// A process that measures: its memory and its threads, kept from case to case. The context of the first
/// device must be current. Everything throws std::runtime_error.
class HostBench {
 public:
  /// links: to measure in each round; may be null. wait: for all processes that measure at once.
  HostBench(const Settings& settings, std::unique_ptr<Links> links, std::function<void()> wait)
      : settings_(settings),
        pace_(settings.pace),
        links_(std::move(links)),
        workers_(std::ranges::max(settings.cases, {}, &HostCase::most_threads).most_threads()) {
    pace_.before_sample = std::move(wait);
  }

  /// One result for each coder, in order; those that make wrong bytes are not timed. Throws also if a device
  /// fails.
  std::vector<HostResult> measure(const HostCase& c) {
    const std::uint64_t latches = kernels::read(kernels::device_stats().latches);
    const Operation operation = make_operation(c.op, technique_for({c.k, c.m}), c.k, c.m, c.targets());
    const StripeOrder order{c.most_threads(), settings_.turns_of(c), most_bytes_to_check / c.stripe_bytes()};
    const Stripes stripes(operation, c.chunk_bytes, memory(c.residence), order.stripes());
    std::vector<std::unique_ptr<CodecCalls>> calls;
    std::vector<Contestant> contestants;
    for (const Contestant& coder : c.coders) {
      const CodecCalls& codec = *calls.emplace_back(std::make_unique<CodecCalls>(c, coder.name));
      contestants.push_back(stripe_contestant(coder.name, coder.threads, stripes, [&](std::size_t stripe) {
        return codec.run(stripes, stripe);
      }));
    }
    std::vector<std::vector<std::uint64_t>> ran_before;
    std::vector<double> ceilings;
    pace_.before_round = [&] {
      // Calls before those made the caches warm.
      if (ran_before.empty())
        for (const auto& each : calls) ran_before.push_back(each->ran());
      if (links_) ceilings.push_back(links_->source_gbps(c.residence == Residence::device, c.k, c.targets()));
    };
    const auto measured = bench::measure(workers_, contestants, order, pace_);
    // A device that failed left its work to others.
    if (kernels::read(kernels::device_stats().latches) != latches)
      throw std::runtime_error(fmt::format("a device failed while {} was measured", c.words()));
    std::vector<HostResult> results;
    for (std::size_t i = 0; i < measured.size(); ++i) {
      HostResult& result = results.emplace_back(measured[i]);
      if (!measured[i].verified) continue;
      std::ranges::transform(calls[i]->ran(), ran_before[i], result.ran.begin(), std::minus<>{});
      if (links_) result.ceiling_gbps = median(ceilings);
    }
    return results;
  }

 private:
  /// Allocated once, as large as any case needs it: page-locking takes a third of a second a GiB.
  std::shared_ptr<const Memory> memory(Residence residence) {
    auto& memory = memories_[residence];
    if (memory) return memory;
    std::size_t most = 0;
    for (const HostCase& c : settings_.cases)
      if (c.residence == residence)
        most = std::max(most, settings_.turns_of(c) * c.most_threads() * c.stripe_bytes());
    memory = std::make_shared<const Memory>(residence, most);
    return memory;
  }

  const Settings& settings_;
  Pace pace_;
  std::unique_ptr<Links> links_;
  Workers workers_;
  std::map<Residence, std::shared_ptr<const Memory>> memories_;
};

/// Every combination of the options. Coders whose stripes would be too large are left out, in words.
void add_cases(const CommandLine& line, Settings& settings) {
  const auto shapes = line.shapes("shapes");
  std::ranges::for_each(shapes, technique_for);
  const auto chunks = line.numbers("chunks", 64, gib, 64), threads = line.numbers("threads", 1, 1024);
  const auto ops = line.list("ops", every_op), backends = line.list("backends", every_backend);
  for (const auto& [k, m] : shapes)
    for (const std::size_t chunk : chunks)
      for (const auto& residence : line.list("residences", every_residence))
        for (const auto& op : ops) {
          HostCase c{.op = op, .k = k, .m = m, .chunk_bytes = chunk};
          for (const Residence each : {Residence::pageable, Residence::pinned, Residence::device})
            if (kernels::name(each) == residence) c.residence = each;
          for (const auto& backend : backends)
            for (const std::size_t count : threads) {
              // The device's memory is out of reach of the CPU back ends.
              if (c.residence == Residence::device && (backend == "x86" || backend == "isal")) continue;
              if (count * c.stripe_bytes() <= settings.largest_bytes)
                c.coders.push_back({.name = backend, .threads = static_cast<unsigned>(count)});
              else
                settings.left_out.push_back(fmt::format("{}: {} with {} threads", c.words(), backend, count));
            }
          if (!c.coders.empty()) settings.cases.push_back(std::move(c));
        }
  if (settings.cases.empty())
    throw UsageError("--residences, --backends, --largest-bytes: leave nothing to measure");
}

/// A fifth of the machine's memory, for there may be two residences; 24 GiB are enough for the documented
/// cases.
std::size_t default_largest_bytes() {
  const auto memory =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::min(24 * gib, memory / 5);
}

Settings settings_of(const CommandLine& line, std::size_t processes) {
  Settings s;
  s.pace = {.rounds = line.number("rounds", 1, most_rounds),
            .sample_seconds = line.given("sample-ms") ? line.seconds("sample-ms")
                              : processes > 1         ? 0.1
                                                      : 0.004,
            .warm_seconds = line.seconds("warm-ms"),
            .each_call = true};
  // Processes would not agree on it.
  if (processes == 1) s.pace.case_seconds = line.seconds("case-ms");
  s.link_bytes = line.number("link-bytes", mib, 8 * gib);
  s.largest_bytes = line.given("largest-bytes") ? line.number("largest-bytes", 1, 16384 * gib)
                                                : default_largest_bytes() / processes;
  add_cases(line, s);
  return s;
}

/// What a member says first.
struct Greeting {
  char gpu[256];
  std::size_t gpus;
};

/// What each process does: says what it has, then the results of each case.
void be_member(const Settings& settings, const Processes::Member& member) {
  const auto devices = bring_up_devices("host");
  const Device::Scope scope(*devices.front());
  require(scope.result(), "cuCtxPushCurrent");
  Greeting greeting{{}, devices.size()};
  gpu_line(*devices.front()).second.copy(greeting.gpu, sizeof greeting.gpu - 1);
  member.say(greeting);
  auto links = member.index == 0 ? std::make_unique<Links>(devices, settings.link_bytes) : nullptr;
  HostBench bench(settings, std::move(links), member.wait);
  for (const HostCase& c : settings.cases)
    for (const HostResult& result : bench.measure(c)) member.say(result);
}

/// The rows of a case. Adds how `auto` does beside the best forced back end with as many threads, if there is
/// one, to `ratios`: the best one is picked after the fact, so that noise alone puts the ratio below 1.
void add_rows(const HostCase& c, const std::vector<HostResult>& results, unsigned processes, std::size_t gpus,
              Report& report, std::vector<double>& ratios) {
  std::vector<Contestant> coders = c.coders;
  for (Contestant& coder : coders) coder.threads *= processes;
  std::vector<Result> measured(results.size());
  std::ranges::transform(results, measured.begin(), &HostResult::measured);
  const Figures figures(coders, measured), cpu(coders, measured, true);
  const double gb = 1e-9 * static_cast<double>(c.k * c.chunk_bytes);
  for (std::size_t i = 0; i < coders.size(); ++i) {
    const auto fastest = [&](const auto& is) {
      return figures.fastest(
          [&](const Contestant& other) { return other.threads == coders[i].threads && is(other.name); });
    };
    const HostResult& result = results[i];
    const Row whom{{"op", c.op},
                   {"k", c.k},
                   {"m", c.m},
                   {"chunk_bytes", c.chunk_bytes},
                   {"residence", kernels::name(c.residence)},
                   {"processes", processes},
                   {"threads", c.coders[i].threads},
                   {"gpus", gpus},
                   {"coder", coders[i].name}};
    if (!figures.verified(i)) {
      report.add(whom, {});
      continue;
    }
    const double gbps = figures.per_second(i, gb);
    const auto isal = fastest([](const auto& name) { return name == "isal"; });
    const auto ratio_best = figures.times(i, fastest([](const auto& name) { return name != "auto"; }));
    if (coders[i].name == "auto" && ratio_best) ratios.push_back(*ratio_best);
    report.add(whom, Row{{"chosen", result.chosen()},
                         {"chosen_share", result.chosen_share()},
                         {"source_gbps", gbps},
                         {"ceiling_gbps", result.ceiling_gbps},
                         {"ratio_ceiling", gbps / result.ceiling_gbps},
                         {"call_us", 1e6 * figures.call_seconds(i)},
                         {"p50_us", result.measured.calls.quantile_us(0.5)},
                         {"p99_us", result.measured.calls.quantile_us(0.99)},
                         {"cpu_s_per_gb", cpu.call_seconds(i) / gb},
                         {"isal_cpu_s_per_gb", isal ? Value(cpu.call_seconds(*isal) / gb) : Value()},
                         {"ratio_best", ratio_best},
                         {"noise", figures.noise_percent(i)}});
  }
}

int measure_host(const CommandLine& line) {
  Report report(line);
  bool begun = false;
  std::vector<double> ratios;
  for (const std::size_t count : line.numbers("processes", 1, 256)) {
    const auto processes = static_cast<unsigned>(count);
    const Settings settings = settings_of(line, processes);
    std::fflush(stdout);
    Processes members(processes, [&](const auto& member) { be_member(settings, member); });
    const Greeting greeting = members.hear<Greeting>().front();
    if (!std::exchange(begun, true)) report.begin({{"gpu", greeting.gpu}});
    for (const auto& what : settings.left_out) report.note("left out", what);
    for (const HostCase& c : settings.cases) {
      std::vector<HostResult> results;
      for (std::size_t coder = 0; coder < c.coders.size(); ++coder) {
        const auto of_all = members.hear<HostResult>();
        results.push_back(of_all.front());
        for (const HostResult& other : std::span(of_all).subspan(1)) results.back().add(other);
      }
      add_rows(c, results, processes, greeting.gpus, report, ratios);
    }
  }
  if (!ratios.empty())
    report.note("router",
                fmt::format("speed of auto over the best forced back end: median {:.3f} of {} points, "
                            "worst {:.3f}",
                            median(ratios), ratios.size(), std::ranges::min(ratios)));
  return report.finish();
}

}  // namespace

Subcommand host() {
  return {
      "host",
      {{"residences", "pinned", "where the chunks lie: pageable, pinned, device"},
       {"backends", "", fmt::format("of {}; default all", fmt::join(every_backend, ", "))},
       {"ops", "encode", fmt::format("of {}", fmt::join(every_op, ", "))},
       {"shapes", "8+3", "data+coding chunks"},
       {"chunks", "4K,16K,64K,256K,1M,4M", "bytes of a chunk, suffixes K, M, G"},
       {"threads", "1", "threads of each process, each making synchronous calls"},
       {"processes", "1",
        "that measure the same on the same GPU at once; GB/s are their sum, p50 and p99 those of all calls"},
       {"rounds", "11", "samples of each coder, taken in turn"},
       {"sample-ms", "", "time of a sample; default 4, of several processes 100"},
       {"warm-ms", "100", "that each coder codes a case before it is timed"},
       {"case-ms", "1500",
        "after this time a case gets no further round, once there are three; not of several processes"},
       {"link-bytes", "512M", "of a transfer that measures the link"},
       {"largest-bytes", "",
        "of a case's stripes; what needs more is left out and named; default 24G, a fifth of the memory at "
        "most, shared by the processes"}},
      measure_host};
}

}  // namespace ec::bench
