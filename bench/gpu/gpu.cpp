// The cases of `ec_bench gpu`, and its report.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "bench/common/measure.hpp"
#include "bench/common/report.hpp"
#include "bench/gpu/contestants.hpp"
#include "bench/gpu/xor_args.hpp"
#include "bench/subcommands.hpp"

namespace ec::bench {
namespace {

/// More than twice the largest cache of a device.
constexpr std::size_t cold_bytes = std::size_t{256} << 20;

struct KernelCase {
  Operation operation;
  unsigned k = 0;
  unsigned m = 0;
  const char* lost = "";
  std::size_t chunk_bytes = 0;

  std::size_t moved_chunks() const { return operation.reads.size() + operation.program->targets(); }
};

/// Of the chunks that are lost the last lost_coding ones are coding chunks. Moves `total` bytes.
KernelCase make_case(gf::Technique technique, Shape shape, std::size_t total, unsigned erasures = 0,
                     unsigned lost_coding = 0) {
  const auto [k, m] = shape;
  KernelCase c{make_operation(erasures == 0 ? "encode" : "decode", technique, k, m, erasures, lost_coding), k,
               m};
  if (erasures > 0) c.lost = lost_coding == 0 ? "data" : lost_coding == erasures ? "coding" : "mixed";
  constexpr std::size_t granule = std::size_t{64} << 10;
  c.chunk_bytes = std::max<std::size_t>(total / c.moved_chunks() / granule * granule, xor_tile);
  return c;
}

std::vector<KernelCase> cases_of(const CommandLine& line, std::size_t total) {
  const auto ops = line.list("ops", {"encode", "decode"});
  const auto wanted = [&](const char* op) { return std::ranges::find(ops, op) != ops.end(); };
  const auto chunks = line.numbers("chunks", xor_tile, std::size_t{1} << 30, xor_tile);
  std::vector<KernelCase> cases;
  for (const Shape& shape : line.shapes("shapes")) {
    const gf::Technique technique = technique_for(shape);
    const unsigned most = std::min(shape.first, shape.second);
    if (wanted("encode")) {
      cases.push_back(make_case(technique, shape, total));
      for (const std::size_t bytes : chunks) {
        KernelCase c = cases.back();
        c.chunk_bytes = bytes;
        cases.push_back(c);
      }
    }
    if (!wanted("decode")) continue;
    cases.push_back(make_case(technique, shape, total, 1));
    cases.push_back(make_case(technique, shape, total, most));
    cases.push_back(make_case(technique, shape, total, 1, 1));
    cases.push_back(make_case(technique, shape, total, most, most / 2));
  }
  return cases;
}

/// Whether the targets hold the sum of the sources at their ends.
bool is_sum(const DeviceStripe& stripe, const Memory& memory) {
  for (const std::size_t at : {std::size_t{0}, stripe.chunk_bytes - xor_tile}) {
    std::vector<std::uint8_t> sum(xor_tile), bytes(xor_tile);
    for (std::size_t i = 0; i < stripe.chunks.size(); ++i) {
      memory.read(stripe.chunks[i] + at, bytes);
      if (i >= stripe.program->sources() && bytes != sum) return false;
      if (i < stripe.program->sources()) std::ranges::transform(sum, bytes, sum.begin(), std::bit_xor<>{});
    }
  }
  return true;
}

class KernelBench {
 public:
  KernelBench(const CommandLine& line, std::size_t cold, const std::shared_ptr<Device>& device)
      : cold_(cold),
        pace_{.rounds = line.number("runs", 3, 1000)},
        timer_(device),
        kernels_(product_kernels(device)),
        xors_(xor_kernels(device)) {
    std::vector<std::string> names;
    for (const auto& kernel : kernels_) names.push_back(kernel.name);
    const auto chosen = line.list("kernels", names);
    std::erase_if(kernels_, [&](const auto& k) { return std::ranges::find(chosen, k.name) == chosen.end(); });
  }

  /// A row for the fastest XOR kernel, then one for each kernel that supports the case.
  void measure(const KernelCase& c, Report& report) {
    const std::size_t moved = c.moved_chunks() * c.chunk_bytes;
    const std::size_t count = (cold_ + moved - 1) / moved;
    const auto memory = std::make_shared<const Memory>(
        kernels::Residence::device, Stripes::bytes_needed(c.operation, c.chunk_bytes, count));
    const Stripes stripes(c.operation, c.chunk_bytes, memory, count);
    std::vector<DeviceStripe> views;
    for (std::size_t s = 0; s < count; ++s) views.emplace_back(stripes, s);

    std::vector<Contestant> contestants;
    double seconds = 0;
    const auto add = [&](const std::string& name, double parts, std::function<void(CUstream)> work,
                         std::function<bool()> right) {
      contestants.push_back({.name = name,
                             .run =
                                 [&, parts, work](std::size_t) {
                                   timer_.start([&](CUstream stream, CUstream) { work(stream); });
                                   seconds = timer_.finish() / parts;
                                 },
                             .spoil =
                                 [&](std::size_t) {
                                   for (std::size_t s = 0; s < count; ++s) stripes.spoil(s);
                                 },
                             .right = [right](std::size_t) { return right(); },
                             .seconds_of_run = [&] { return seconds; }});
    };
    // By the driver, of half of that memory.
    const std::size_t copied = memory->size() / 2048 * 1024;
    const CUdeviceptr at = gpu_address(memory->data());
    const auto add_kernel = [&](const Kernel& kernel, bool sums) {
      add(
          kernel.name, static_cast<double>(count),
          [&](CUstream stream) {
            for (const auto& view : views) kernel.launch(view, stream);
          },
          [&, sums] {
            return sums ? is_sum(views.back(), *memory) : stripes.right(0) && stripes.right(count - 1);
          });
    };
    for (const Kernel& x : xors_) add_kernel(x, true);
    for (const Kernel& kernel : kernels_)
      if (kernel.supports(views.front())) add_kernel(kernel, false);
    const Memory other(kernels::Residence::device, copied);
    add(
        copy_name, 1e-9 * static_cast<double>(copied),
        [&](CUstream stream) {
          require(gpu_driver().memcpy_dtod_async(gpu_address(other.data()), at, copied, stream),
                  "cuMemcpyDtoDAsync");
        },
        [] { return true; });
    const auto results = bench::measure(workers_, contestants, {}, pace_);
    const Figures figures(contestants, results);
    const auto copy = figures.find(copy_name);
    const auto fastest_xor = figures.fastest("xor");
    const double gb = 1e-9 * static_cast<double>(c.chunk_bytes);
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      const std::string& name = contestants[i].name;
      const bool verified = results[i].verified;
      if (verified && (i == copy || (name.starts_with("xor") && i != fastest_xor))) continue;
      Row row{{"coder", i == fastest_xor ? "xor" : name},
              {"op", c.operation.decodes() ? "decode" : "encode"},
              {"technique", gf::name(c.operation.technique)},
              {"k", c.k},
              {"m", c.m},
              {"erasures", c.operation.decodes() ? c.operation.program->targets() : 0},
              {"lost", c.lost},
              {"chunk_bytes", c.chunk_bytes}};
      std::vector<Value> values(5);
      if (verified)
        values = {gb * c.k / figures.call_seconds(i),
                  gb * static_cast<double>(c.moved_chunks()) / figures.call_seconds(i),
                  // A copy of one GB reads and writes it.
                  figures.times(i, *copy) * gb * static_cast<double>(c.moved_chunks()) / 2,
                  fastest_xor ? Value(figures.times(i, *fastest_xor)) : Value(), figures.noise_percent(i)};
      const char* const names[] = {"source_gbps", "moved_gbps", "ratio_copy", "ratio_xor", "noise"};
      for (std::size_t v = 0; v < values.size(); ++v) row.emplace_back(names[v], values[v]);
      report.add(row, verified);
    }
  }

 private:
  static constexpr const char* copy_name = "copy";

  std::size_t cold_;  ///< bytes that a run moves at least
  Pace pace_;
  GpuTimer timer_;
  std::vector<Kernel> kernels_;
  std::vector<Kernel> xors_;
  Workers workers_{1};
};

int run(const CommandLine& line, const std::vector<std::string>& arguments) {
  const std::size_t total = line.number("total", 1 << 20, std::size_t{32} << 30);
  const auto cases = cases_of(line, total);
  Report report(line.text("csv"));
  const auto device = bring_up_devices("gpu").front();
  const Device::Scope scope(*device);
  require(scope.result(), "cuCtxPushCurrent");
  KernelBench bench(line, std::min(total, cold_bytes), device);
  report.begin(make_header(
      "", "gpu", arguments,
      {gpu_line(*device),
       {"timing", fmt::format("a run codes stripes of {} MiB in turn", std::min(total, cold_bytes) >> 20)}}));
  for (const KernelCase& c : cases) bench.measure(c, report);
  return report.finish();
}

}  // namespace

int run_gpu(const std::vector<std::string>& arguments) {
  CommandLine line("gpu");
  line.add("kernels", "", "names as in the report; default all");
  line.add("shapes", "4+2,6+3,8+3,8+4,10+4,12+4,16+4,20+4,32+8,64+16,128+32", "data+coding chunks");
  line.add("ops", "", "encode, decode; default both");
  line.add("total", "1536M", "bytes that a stripe has, read and written");
  line.add("chunks", "64K,1M", "bytes of a chunk that encode has too, suffixes K, M, G");
  line.add("runs", "13", "timed runs of each kernel, in turn");
  add_report_option(line);
  return line.run(arguments, [&] { return run(line, arguments); });
}

}  // namespace ec::bench
