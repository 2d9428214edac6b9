// `ec_bench host`: lines the codec up on known stripes, in one process or in many, and sets what it does
// beside the ceiling of the link.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>

#include "bench/common/isal.hpp"
#include "bench/common/report.hpp"
#include "bench/common/stripes.hpp"
#include "bench/gpu/gpu.hpp"
#include "bench/host/processes.hpp"
#include "kernels/device_stats.hpp"
#include "plugin/codec/routing/router.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::bench {
namespace {

using kernels::Residence;

/// Of the stripes that a thread takes turns on.
constexpr std::size_t most_bytes_a_thread = 512 * mib;
/// Stripes of its own that a thread codes one after the other, at most.
constexpr std::size_t most_turns = 16;
/// Of those of them that are checked: chunks may be so long that looking at them would take longer than
/// measuring.
constexpr std::size_t most_bytes_to_check = 64 * mib;

const std::vector<std::string> every_op{"encode", "decode"};
const std::vector<std::string> every_backend{"cuda", "x86", "isal", "auto"};
const std::vector<std::string> every_residence{"pageable", "pinned"};

/// On stripes of the same memory.
struct HostCase : Case {
  Residence residence = Residence::pinned;
  unsigned threads = 1;
};

/// Every combination of the options.
std::vector<HostCase> cases_of(const CommandLine& line) {
  std::vector<HostCase> cases;
  for (const Shape& shape : line.shapes("shapes"))
    for (const std::size_t chunk : line.numbers("chunks", 64, gib, 64))
      for (const auto& residence : line.list("residences", every_residence))
        for (const auto& op : line.list("ops", every_op))
          for (const std::size_t threads : line.numbers("threads", 1, 1024))
            cases.push_back({{op, technique_for(shape), shape.first, shape.second, chunk},
                             residence == "pinned" ? Residence::pinned : Residence::pageable,
                             static_cast<unsigned>(threads)});
  return cases;
}

/// A device, and the memory that transfers over its link go between.
struct Link {
  std::shared_ptr<Device> device;
  Buffer pinned, device_memory;
};

/// Source GB/s of k chunks that are read, where `targets` are written and nothing is computed: by copies in
/// both directions, over the links of all devices at once. A kernel that only XORs in pinned memory is
/// never faster. Throws std::runtime_error, also if the copies do not write to their end.
double source_gbps(const std::vector<Link>& links, unsigned k, unsigned targets) {
  const std::size_t chunk = links.front().pinned.size() / (k + targets);
  const std::size_t in = k * chunk, out = targets * chunk;
  std::vector<double> seconds(links.size());
  Workers workers(static_cast<unsigned>(links.size()));
  workers.run(static_cast<unsigned>(links.size()), [&](unsigned i) {
    const auto& [device, pinned, device_memory] = links[i];
    const std::span end(pinned.data() + in + out - 1024, 1024);
    std::ranges::fill(end, 0x5a);
    const Device::Scope scope(*device);
    const auto& driver = device->driver();
    const auto there = borrow_lane(*device), back = borrow_lane(*device);
    const CUdeviceptr at = gpu_address(device_memory.data());
    const auto begun = std::chrono::steady_clock::now();
    require(driver.memcpy_htod_async(at, pinned.data(), in, there->stream), "cuMemcpyHtoDAsync");
    require(driver.memcpy_dtoh_async(pinned.data() + in, at + in, out, back->stream), "cuMemcpyDtoHAsync");
    for (CUstream stream : {there->stream, back->stream})
      require(driver.stream_synchronize(stream), "cuStreamSynchronize");
    seconds[i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (std::ranges::count(end, 0x5a) == std::ssize(end))
      throw std::runtime_error("copies, which measure the link, did not move their bytes");
  });
  return 1e-9 * static_cast<double>(links.size() * in) / std::ranges::max(seconds);
}

/// The codec's way to a back end, forced or left to the router, by the settings of this node, as in a daemon.
struct Coder {
  explicit Coder(const std::string& backend)
      : router(codec::parse_backend_choice(backend == "cuda" ? "gpu" : backend).value(),
               codec::node_settings().threshold_bytes, kernels::backends(), stats) {}

  codec::Stats stats;  ///< of its own, so that others' calls do not count
  codec::Router router;
};

/// A result for each back end, in order; those that make wrong bytes are not timed. links: to measure in each
/// round, if there are any; returns their median. largest_bytes: of the stripes, unless one for each thread
/// is more. Throws std::runtime_error, also if a device fails.
double measure_case(const HostCase& c, const std::vector<std::string>& backends,
                    const std::vector<Link>& links, std::size_t largest_bytes, Pace pace,
                    std::span<HostResult> results) {
  const std::uint64_t latches = kernels::read(kernels::device_stats().latches);
  const Operation operation = make_operation(c);
  const std::size_t stripe_bytes = Stripes::bytes_of_one(operation, c.chunk_bytes);
  const std::size_t bytes_a_thread = std::min(most_bytes_a_thread, largest_bytes / c.threads);
  const StripeOrder order{c.threads, std::clamp<std::size_t>(bytes_a_thread / stripe_bytes, 1, most_turns),
                          most_bytes_to_check / stripe_bytes};
  const Stripes stripes(operation, c.chunk_bytes, c.residence, order.stripes());
  const auto counted = c.op == "encode" ? codec::Operation::encode : codec::Operation::decode;
  std::deque<Coder> coders;
  std::vector<Contestant> contestants;
  for (const std::string& backend : backends)
    contestants.push_back(stripe_contestant(
        backend, c.threads, stripes, [&, &router = coders.emplace_back(backend).router](std::size_t s) {
          return router.transform(stripes.job(s), counted);
        }));
  // The calls since this was called before.
  const auto count_calls = [&] {
    for (std::size_t i = 0; i < coders.size(); ++i)
      for (std::size_t b = 0; b < kernels::backends().size(); ++b)
        results[i].ran[b] = codec::sum(coders[i].stats.page()).all(b).calls - results[i].ran[b];
  };
  std::ranges::fill(results, HostResult{});
  std::vector<double> ceilings;
  pace.before_round = [&] {
    // Calls before those made the caches warm.
    if (ceilings.empty()) count_calls();
    ceilings.push_back(links.empty() ? 0 : source_gbps(links, c.k, operation.program->targets()));
  };
  Workers workers(c.threads);
  const auto measured = measure(workers, contestants, order, pace);
  count_calls();
  // A device that failed left its work to others.
  if (kernels::read(kernels::device_stats().latches) != latches)
    throw std::runtime_error(
        fmt::format("a device failed while {} {}+{} was measured, chunks of {} bytes, {}", c.op, c.k, c.m,
                    c.chunk_bytes, kernels::name(c.residence)));
  for (std::size_t i = 0; i < measured.size(); ++i) results[i].measured = measured[i];
  return median(ceilings);
}

void add_rows(const HostCase& c, const std::vector<std::string>& backends,
              std::span<const HostResult> results, std::size_t processes, std::size_t gpus,
              double ceiling_gbps, Report& report) {
  std::vector<Contestant> coders;
  std::vector<Result> measured;
  for (std::size_t i = 0; i < backends.size(); ++i) {
    coders.push_back({.name = backends[i], .threads = c.threads * static_cast<unsigned>(processes)});
    measured.push_back(results[i].measured);
  }
  const Figures figures(coders, measured), cpu(coders, measured, true);
  const auto best = figures.fastest([](const Contestant& coder) { return coder.name != "auto"; });
  for (std::size_t i = 0; i < coders.size(); ++i) {
    const double gbps = figures.per_second(i, c.gb());
    const Row row{{"residence", kernels::name(c.residence)},
                  {"processes", processes},
                  {"threads", c.threads},
                  {"gpus", gpus},
                  {"coder", coders[i].name},
                  {"chosen", results[i].chosen()},
                  {"source_gbps", gbps},
                  {"ceiling_gbps", ceiling_gbps},
                  {"ratio_ceiling", gbps / ceiling_gbps},
                  {"call_us", 1e6 * figures.call_seconds(i)},
                  {"p99_us", results[i].measured.calls.quantile_us(0.99)},
                  {"cpu_s_per_gb", cpu.call_seconds(i) / c.gb()},
                  {"ratio_best", figures.times(i, best)},
                  {"noise", figures.noise_percent(i)}};
    report.add(row_of(c, row), figures.verified(i));
  }
}

int measure_host(const CommandLine& line) {
  const auto cases = cases_of(line);
  const auto backends = line.list("backends", every_backend);
  auto counts = line.numbers("processes", 1, 256);
  std::ranges::sort(counts);  // no process ends while another one measures
  const std::size_t link_bytes = line.number("link-bytes", mib, 8 * gib);
  const std::size_t largest_bytes = line.number("largest-bytes", 1, 16384 * gib);
  Pace pace{.rounds = line.number("rounds", 1, most_rounds),
            .sample_seconds = line.given("sample-ms") ? line.seconds("sample-ms") : 0,
            .warm_seconds = line.seconds("warm-ms"),
            .each_call = true};
  const Processes processes(counts, backends.size());
  std::vector<std::shared_ptr<Device>> devices;
  std::vector<Link> links;
  std::optional<Report> report;  // of process 0
  for (std::size_t time = 0; time < counts.size(); ++time) {
    if (processes.number() >= counts[time]) continue;
    // Nobody prepares while fewer still measure.
    processes.wait(time);
    if (devices.empty()) {
      devices = bring_up_devices("host");
      if (processes.number() == 0) {
        report.emplace(line, Header{gpu_line(*devices.front()), isal_line()});
        for (std::size_t i = 0; i < devices.size(); ++i)
          links.push_back({devices[i], allocate(Residence::pinned, link_bytes, i),
                           allocate(Residence::device, link_bytes, i)});
      }
    }
    pace.before_sample = [&] { processes.wait(time); };
    pace.agree = [&](bool right) { return processes.agree(time, right); };
    if (!line.given("sample-ms")) pace.sample_seconds = counts[time] > 1 ? 0.1 : 0.004;
    for (const HostCase& c : cases) {
      const auto results = processes.results_of(processes.number());
      const double ceiling = measure_case(c, backends, links, largest_bytes / counts[time], pace, results);
      processes.wait(time);
      if (processes.number() == 0) {
        for (std::size_t other = 1; other < counts[time]; ++other)
          for (std::size_t i = 0; i < results.size(); ++i) results[i].add(processes.results_of(other)[i]);
        add_rows(c, backends, results, counts[time], devices.size(), ceiling, *report);
      }
      // What it has read may now change.
      processes.wait(time);
    }
  }
  return report ? report->finish() : 0;
}

}  // namespace

Subcommand host() {
  return {"host",
          {{"residences", "pinned", "where the chunks lie: pageable, pinned"},
           {"backends", "", fmt::format("of {}; default all", fmt::join(every_backend, ", "))},
           {"ops", "encode", fmt::format("of {}, where m chunks are lost", fmt::join(every_op, ", "))},
           {"shapes", "8+3", "data+coding chunks"},
           {"chunks", "4K,16K,64K,256K,1M,4M", "bytes of a chunk, suffixes K, M, G"},
           {"threads", "1", "threads of each process, each making synchronous calls"},
           {"processes", "1", "that measure the same on the same GPU at once; GB/s and p99 are of all calls"},
           {"rounds", "11", "samples of each coder, taken in turn"},
           {"sample-ms", "", "time of a sample; default 4, of several processes 100"},
           {"warm-ms", "100", "that each coder codes a case before it is timed"},
           {"link-bytes", "512M", "of a transfer that measures the link"},
           {"largest-bytes", "8G",
            "of the stripes of a case, of which each thread has one at least and 16 at most"}},
          measure_host};
}

}  // namespace ec::bench
