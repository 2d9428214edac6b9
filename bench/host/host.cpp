// `ec_bench host` from its command line to its report, in one process or in many.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <exception>
#include <optional>

#include "bench/common/report.hpp"
#include "bench/host/bench.hpp"
#include "bench/host/processes.hpp"
#include "bench/subcommands.hpp"

namespace ec::bench {
namespace {

using kernels::Residence;

constexpr std::size_t mib = std::size_t{1} << 20, gib = std::size_t{1} << 30;
const std::vector<std::string> every_op{"encode", "decode-1", "decode-m"};
const std::vector<std::string> every_backend{"cuda", "x86", "isal", "auto"};
const std::vector<std::string> every_residence{"pageable", "pinned", "device"};

/// What a member says first.
struct Greeting {
  char gpu[256];
  std::size_t gpus;
};

/// Every combination of the options. Coders whose stripes would be larger than `largest_bytes` are left out,
/// in words.
std::vector<HostCase> cases_of(const CommandLine& line, std::size_t largest_bytes,
                               std::vector<std::string>* left_out) {
  std::vector<HostCase> cases;
  for (const auto& [k, m] : line.shapes("shapes"))
    for (const std::size_t chunk : line.numbers("chunks", 64, gib, 64))
      for (const auto& residence : line.list("residences", every_residence))
        for (const auto& op : line.list("ops", every_op)) {
          HostCase c{.op = op, .k = k, .m = m, .chunk_bytes = chunk};
          technique_for({k, m});
          for (const Residence each : {Residence::pageable, Residence::pinned, Residence::device})
            if (kernels::name(each) == residence) c.residence = each;
          for (const auto& backend : line.list("backends", every_backend))
            for (const std::size_t threads : line.numbers("threads", 1, 1024)) {
              // The device's memory is out of reach of the CPU back ends.
              if (c.residence == Residence::device && (backend == "x86" || backend == "isal")) continue;
              if (threads * c.stripe_bytes() <= largest_bytes)
                c.coders.push_back({backend, static_cast<unsigned>(threads)});
              else
                left_out->push_back(fmt::format("{}: {} with {} threads", c.words(), backend, threads));
            }
          if (!c.coders.empty()) cases.push_back(std::move(c));
        }
  if (cases.empty()) throw UsageError("--residences, --backends, --largest-bytes: leave nothing to measure");
  return cases;
}

/// A fifth of the machine's memory, for there may be two residences; 24 GiB are enough for the documented
/// cases.
std::size_t default_largest_bytes() {
  const auto memory =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::min(24 * gib, memory / 5);
}

struct Settings {
  std::vector<HostCase> cases;
  Pace pace;
  std::size_t largest_bytes = 0;
  std::size_t link_bytes = 0;
};

/// What each process does: says what it has, then the results of each case.
void be_member(const Settings& settings, const Processes::Member& member) {
  const auto devices = bring_up_devices("host");
  const Device::Scope scope(*devices.front());
  require(scope.result(), "cuCtxPushCurrent");
  Greeting greeting{{}, devices.size()};
  gpu_line(*devices.front()).second.copy(greeting.gpu, sizeof greeting.gpu - 1);
  member.say(greeting);
  HostBench bench(settings.cases, devices, settings.pace, settings.largest_bytes, settings.link_bytes,
                  member.index == 0, member.wait);
  for (const HostCase& c : settings.cases)
    for (const HostResult& result : bench.measure(c)) member.say(result);
}

/// Calls a second over those of the best forced back end with as many threads; 0 if there is none. The best
/// one is picked after the fact, so that noise alone puts the ratio of `auto` below 1.
double ratio_best(const HostCase& c, std::size_t i, const std::vector<HostResult>& results) {
  double best = 0;
  for (std::size_t j = 0; j < c.coders.size(); ++j)
    if (c.coders[j].backend != "auto" && c.coders[j].threads == c.coders[i].threads && results[j].verified)
      best = std::max(best, results[j].calls_per_second());
  return best > 0 ? results[i].calls_per_second() / best : 0;
}

Row row_of(const HostCase& c, std::size_t i, const std::vector<HostResult>& results, unsigned processes,
           std::size_t gpus) {
  const HostResult& result = results[i];
  const double gb = 1e-9 * static_cast<double>(c.k * c.chunk_bytes);
  Row row{{"op", c.op},
          {"k", c.k},
          {"m", c.m},
          {"chunk_bytes", c.chunk_bytes},
          {"residence", kernels::name(c.residence)},
          {"processes", processes},
          {"threads", c.coders[i].threads},
          {"gpus", gpus},
          {"coder", c.coders[i].backend},
          {"chosen", result.chosen()}};
  std::vector<Value> figures(11);
  if (result.verified) {
    const double gbps = gb * result.calls_per_second();
    figures = {result.chosen_share(),
               gbps,
               result.ceiling_gbps,
               gbps / result.ceiling_gbps,
               1e6 * processes * c.coders[i].threads / result.calls_per_second(),
               result.calls.quantile_us(0.5),
               result.calls.quantile_us(0.99),
               result.cpu_seconds() / gb,
               Value(),
               ratio_best(c, i, results),
               result.noise_percent()};
    for (std::size_t j = 0; j < results.size(); ++j)
      if (c.coders[j].backend == "isal" && c.coders[j].threads == c.coders[i].threads && results[j].verified)
        figures[8] = results[j].cpu_seconds() / gb;
  }
  const char* const names[] = {"chosen_share",      "source_gbps", "ceiling_gbps", "ratio_ceiling",
                               "call_us",           "p50_us",      "p99_us",       "cpu_s_per_gb",
                               "isal_cpu_s_per_gb", "ratio_best",  "noise"};
  for (std::size_t f = 0; f < figures.size(); ++f) row.emplace_back(names[f], figures[f]);
  return row;
}

int run(const CommandLine& line, const std::vector<std::string>& arguments) {
  Report report(line.text("csv"));
  std::optional<Header> header = make_header("", "host", arguments, {});
  std::vector<double> ratios;
  for (const std::size_t count : line.numbers("processes", 1, 256)) {
    const auto processes = static_cast<unsigned>(count);
    Settings settings;
    settings.pace = {.rounds = line.number("rounds", 1, most_rounds),
                     .sample_seconds = line.given("sample-ms") ? line.seconds("sample-ms")
                                       : processes > 1         ? 0.1
                                                               : 0.004,
                     .warm_seconds = line.seconds("warm-ms"),
                     .each_call = true};
    // Processes would not agree on it.
    if (processes == 1) settings.pace.case_seconds = line.seconds("case-ms");
    settings.link_bytes = line.number("link-bytes", mib, 8 * gib);
    settings.largest_bytes = line.given("largest-bytes") ? line.number("largest-bytes", 1, 16384 * gib)
                                                         : default_largest_bytes() / processes;
    std::vector<std::string> left_out;
    settings.cases = cases_of(line, settings.largest_bytes, &left_out);
    std::fflush(stdout);
    Processes members(processes, [&](const auto& member) { be_member(settings, member); });
    Greeting greeting{};
    for (unsigned i = 0; i < processes; ++i) greeting = members.hear<Greeting>(i);
    if (header) {
      header->emplace_back("gpu", greeting.gpu);
      report.begin(*header);
      header.reset();
    }
    for (const auto& what : left_out) report.note("left out", what);
    for (const HostCase& c : settings.cases) {
      std::vector<HostResult> results;
      for (unsigned i = 0; i < processes; ++i)
        for (std::size_t coder = 0; coder < c.coders.size(); ++coder) {
          const auto result = members.hear<HostResult>(i);
          if (i == 0)
            results.push_back(result);
          else
            results[coder].add(result);
        }
      for (std::size_t i = 0; i < c.coders.size(); ++i)
        report.add(row_of(c, i, results, processes, greeting.gpus), results[i].verified);
      for (std::size_t i = 0; i < c.coders.size(); ++i)
        if (const double ratio = ratio_best(c, i, results); c.coders[i].backend == "auto" && ratio > 0)
          ratios.push_back(ratio);
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

int run_host(const std::vector<std::string>& arguments) {
  CommandLine line("host");
  line.add("residences", "pinned", "where the chunks lie: pageable, pinned, device");
  line.add("backends", "", fmt::format("of {}; default all", fmt::join(every_backend, ", ")));
  line.add("ops", "encode", fmt::format("of {}", fmt::join(every_op, ", ")));
  line.add("shapes", "8+3", "data+coding chunks");
  line.add("chunks", "4K,16K,64K,256K,1M,4M", "bytes of a chunk, suffixes K, M, G");
  line.add("threads", "1", "threads of each process, each making synchronous calls");
  line.add(
      "processes", "1",
      "that measure the same on the same GPU at once; GB/s are their sum, p50 and p99 those of all calls");
  line.add("rounds", "11", "samples of each coder, taken in turn");
  line.add("sample-ms", "", "time of a sample; default 4, of several processes 100");
  line.add("warm-ms", "100", "that each coder codes a case before it is timed");
  line.add("case-ms", "1500",
           "after this time a case gets no further round, once there are three; not of several processes");
  line.add("link-bytes", "512M", "of a transfer that measures the link");
  line.add(
      "largest-bytes", "",
      "of a case's stripes; what needs more is left out and named; default 24G, a fifth of the memory at "
      "most, shared by the processes");
  add_report_option(line);
  return line.run(arguments, [&] { return run(line, arguments); });
}

}  // namespace ec::bench
