// `ec_bench gpu`: lines up the product's kernels on stripes that lie in device memory, beside a copy there.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "bench/common/report.hpp"
#include "bench/common/stripes.hpp"
#include "bench/gpu/gpu.hpp"
#include "bench/subcommands.hpp"
#include "kernels/cuda/kernels/launches.hpp"

namespace ec::bench {
namespace {

/// More than twice the largest cache of a device.
constexpr std::size_t cold_bytes = std::size_t{256} << 20;
/// Every kernel codes chunks of a multiple of it in one go.
constexpr std::size_t granule = 1024;

/// A stripe as kernels take it. A view; chunks lie at 64 bytes at least.
struct DeviceStripe {
  DeviceStripe(const Stripes& stripes, std::size_t stripe)
      : program(stripes.operation().program), chunk_bytes(stripes.chunk_bytes()) {
    for (const auto& source : stripes.sources(stripe))
      chunks.push_back(const_cast<std::uint8_t*>(source.data));
    for (const auto& target : stripes.targets(stripe)) chunks.push_back(target.data);
  }

  const gf::Matrix& matrix() const { return program->matrix(); }
  kernels::cuda::ChunkViews views() const {
    return {{chunks.data(), program->sources()},
            {chunks.data() + program->sources(), program->targets()},
            chunk_bytes};
  }

  const kernels::Program* program;
  std::vector<std::uint8_t*> chunks;  ///< the sources, then the targets
  std::size_t chunk_bytes;
};

/// Used by one thread at a time, with the device's context current.
struct Kernel {
  std::string name;
  /// Whether launch() codes this stripe in one go. What is not supported gets no row.
  std::function<bool(const DeviceStripe&)> supports;
  /// Enqueues target = M . source and returns without waiting.
  std::function<CUresult(const DeviceStripe&, CUstream)> launch;
};

/// The kernels for any matrix, by tables of products (table) and on the tensor cores (bits); those for paired
/// matrices, where they would be taken before those (paired); the one generated for the matrix, where there
/// is one (generated).
std::vector<Kernel> product_kernels(const std::shared_ptr<Device>& device) {
  using namespace kernels::cuda;
  const auto paired_shape = [device](const DeviceStripe& s) {
    return paired_shape_for(*device, s.matrix(), bit_kernel_steps(s.matrix()));
  };
  return {{"table", [](const DeviceStripe& s) { return table_kernel_reach(s.views(), {}) == s.chunk_bytes; },
           [device](const DeviceStripe& s, CUstream stream) {
             return launch_tables(*device, s.matrix(), s.views(), {}, stream);
           }},
          {"bits",
           [device](const DeviceStripe& s) { return bit_kernel_reach(*device, s.views()) == s.chunk_bytes; },
           [device](const DeviceStripe& s, CUstream stream) {
             return launch_bits(*device, s.matrix(), s.views(), {}, stream);
           }},
          {"paired",
           [paired_shape](const DeviceStripe& s) {
             const auto* shape = paired_shape(s);
             return shape != nullptr && paired_kernel_reach(*shape, s.views()) == s.chunk_bytes;
           },
           [device, paired_shape](const DeviceStripe& s, CUstream stream) {
             return launch_paired(*device, *paired_shape(s), s.matrix(), s.views(), stream);
           }},
          {"generated",
           [device](const DeviceStripe& s) {
             return device->generated_kernel(s.matrix()) != nullptr &&
                    generated_kernel_reach(s.views()) == s.chunk_bytes;
           },
           [device](const DeviceStripe& s, CUstream stream) {
             return launch_generated(*device, device->generated_kernel(s.matrix())->one, s.views(), stream);
           }}};
}

struct KernelCase {
  Operation operation;
  Shape shape;
  const char* lost = "";
  std::size_t chunk_bytes = 0;

  std::size_t moved_chunks() const { return operation.reads.size() + operation.program->targets(); }
};

/// Of the chunks that are lost the last lost_coding ones are coding chunks. Moves `total` bytes.
KernelCase make_case(Shape shape, std::size_t total, unsigned erasures = 0, unsigned lost_coding = 0) {
  const auto [k, m] = shape;
  KernelCase c{
      make_operation(erasures == 0 ? "encode" : "decode", technique_for(shape), k, m, erasures, lost_coding),
      shape};
  if (erasures > 0) c.lost = lost_coding == 0 ? "data" : lost_coding == erasures ? "coding" : "mixed";
  constexpr std::size_t round = std::size_t{64} << 10;
  c.chunk_bytes = std::max<std::size_t>(total / c.moved_chunks() / round * round, granule);
  return c;
}

std::vector<KernelCase> cases_of(const CommandLine& line, std::size_t total) {
  const auto ops = line.list("ops", {"encode", "decode"});
  const auto wanted = [&](const char* op) { return std::ranges::find(ops, op) != ops.end(); };
  const auto chunks = line.numbers("chunks", granule, std::size_t{1} << 30, granule);
  std::vector<KernelCase> cases;
  for (const Shape& shape : line.shapes("shapes")) {
    if (wanted("encode")) {
      const KernelCase encode = make_case(shape, total);
      cases.push_back(encode);
      for (const std::size_t bytes : chunks) cases.emplace_back(encode).chunk_bytes = bytes;
    }
    if (!wanted("decode")) continue;
    const unsigned most = std::min(shape.first, shape.second);
    cases.push_back(make_case(shape, total, 1));
    cases.push_back(make_case(shape, total, most));
    cases.push_back(make_case(shape, total, 1, 1));
    cases.push_back(make_case(shape, total, most, most / 2));
  }
  return cases;
}

/// A row for each kernel that supports the case. cold: bytes that a run moves at least.
void measure_case(const KernelCase& c, std::size_t cold, const std::vector<Kernel>& kernels, GpuTimer& timer,
                  const Pace& pace, Report& report) {
  const std::size_t moved = c.moved_chunks() * c.chunk_bytes;
  const std::size_t count = (cold + moved - 1) / moved;
  const auto memory = std::make_shared<const Memory>(
      kernels::Residence::device, Stripes::bytes_needed(c.operation, c.chunk_bytes, count));
  const Stripes stripes(c.operation, c.chunk_bytes, memory, count);
  std::vector<DeviceStripe> views;
  for (std::size_t s = 0; s < count; ++s) views.emplace_back(stripes, s);

  std::vector<Contestant> contestants;
  double seconds = 0;
  // A run has so many parts, whose time counts.
  const auto add = [&](const std::string& name, double parts, std::function<void(CUstream)> work,
                       std::function<bool(std::size_t)> right) {
    contestants.push_back({.name = name,
                           .run =
                               [&, parts, work](std::size_t) {
                                 timer.start([&](CUstream stream, CUstream) { work(stream); });
                                 seconds = timer.finish() / parts;
                               },
                           .spoil =
                               [&](std::size_t) {
                                 for (std::size_t s = 0; s < count; ++s) stripes.spoil(s);
                               },
                           .right = std::move(right),
                           .seconds_of_run = [&] { return seconds; }});
  };
  // By the driver, of half of that memory.
  const std::size_t copied = memory->size() / 2048 * 1024;
  const Memory other(kernels::Residence::device, copied);
  const auto copy_half = [&](CUstream stream) {
    copy_on_device(gpu_address(other.data()), gpu_address(memory->data()), copied, stream);
  };
  add("copy", 1e-9 * static_cast<double>(copied), copy_half, [](std::size_t) { return true; });
  for (const Kernel& kernel : kernels)
    if (kernel.supports(views.front()))
      add(
          kernel.name, static_cast<double>(count),
          [&](CUstream stream) {
            for (const auto& view : views) require(kernel.launch(view, stream), "cuLaunchKernel");
          },
          [&](std::size_t) { return stripes.right(0) && stripes.right(count - 1); });
  Workers workers(1);
  const auto results = measure(workers, contestants, {}, pace);
  const Figures figures(contestants, results);
  const auto [k, m] = c.shape;
  const double gb = 1e-9 * static_cast<double>(c.chunk_bytes);
  const double moved_gb = gb * static_cast<double>(c.moved_chunks());
  for (std::size_t i = 1; i < contestants.size(); ++i) {
    const Row whom{{"coder", contestants[i].name},
                   {"op", c.operation.decodes() ? "decode" : "encode"},
                   {"technique", gf::name(c.operation.technique)},
                   {"k", k},
                   {"m", m},
                   {"erasures", c.operation.decodes() ? c.operation.program->targets() : 0},
                   {"lost", c.lost},
                   {"chunk_bytes", c.chunk_bytes}};
    if (!figures.verified(i))
      report.add(whom, {});
    else
      report.add(whom, Row{{"source_gbps", figures.per_second(i, gb * k)},
                           {"moved_gbps", figures.per_second(i, moved_gb)},
                           // A copy of one GB reads and writes it.
                           {"ratio_copy", figures.times(i, 0).value() * moved_gb / 2},
                           {"noise", figures.noise_percent(i)}});
  }
}

int measure_gpu(const CommandLine& line) {
  const std::size_t total = line.number("total", 1 << 20, std::size_t{32} << 30);
  const std::size_t cold = std::min(total, cold_bytes);
  const Pace pace{.rounds = line.number("runs", 3, most_rounds)};
  const auto cases = cases_of(line, total);
  Report report(line);
  const auto device = bring_up_devices("gpu").front();
  const Device::Scope scope(*device);
  require(scope.result(), "cuCtxPushCurrent");
  auto kernels = product_kernels(device);
  std::vector<std::string> names;
  for (const Kernel& kernel : kernels) names.push_back(kernel.name);
  const auto chosen = line.list("kernels", names);
  std::erase_if(kernels, [&](const auto& k) { return std::ranges::find(chosen, k.name) == chosen.end(); });
  GpuTimer timer(device);
  report.begin(
      {gpu_line(*device), {"timing", fmt::format("a run codes stripes of {} MiB in turn", cold >> 20)}});
  for (const KernelCase& c : cases) measure_case(c, cold, kernels, timer, pace, report);
  return report.finish();
}

}  // namespace

Subcommand gpu() {
  return {"gpu",
          {{"kernels", "", "names as in the report; default all"},
           {"shapes", "4+2,6+3,8+3,8+4,10+4,12+4,16+4,20+4,32+8,64+16,128+32", "data+coding chunks"},
           {"ops", "", "encode, decode; default both"},
           {"total", "1536M", "bytes that a stripe has, read and written"},
           {"chunks", "64K,1M", "bytes of a chunk that encode has too, suffixes K, M, G"},
           {"runs", "13", "timed runs of each kernel, in turn"}},
          measure_gpu};
}

}  // namespace ec::bench
