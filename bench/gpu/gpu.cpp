// `ec_bench gpu`: lines up the product's kernels on stripes that lie in device memory, beside a copy there.
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <algorithm>
#include <functional>

#include "bench/common/report.hpp"
#include "bench/common/stripes.hpp"
#include "bench/gpu/gpu.hpp"
#include "kernels/cuda/kernels/launches.hpp"

namespace ec::bench {
namespace {

using namespace kernels::cuda;

/// More than twice the largest cache of a device.
constexpr std::size_t cold_source_bytes = 256 * mib;
/// Every kernel codes chunks of a multiple of it in one go.
constexpr std::size_t granule = 1024;

/// The kernels for any matrix, by tables of products (table) and on the tensor cores (bits); the kernels for
/// paired matrices, where they would be taken before those (paired); the kernel generated for the matrix,
/// where there is one (generated).
constexpr KernelKind kinds[] = {KernelKind::table, KernelKind::bits, KernelKind::paired,
                                KernelKind::generated};
std::string name_of(KernelKind kind) {
  return std::string(backend_name(kind).substr(std::string_view("cuda-").size()));
}

/// Whether the kernel codes these chunks in one go. What is not supported gets no row.
bool supports(KernelKind kind, const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks) {
  if (kind == KernelKind::table) return table_kernel_reach(chunks, {}) == chunks.bytes;
  if (kind == KernelKind::generated)
    return device.generated_kernel(matrix) != nullptr && generated_kernel_reach(chunks) == chunks.bytes;
  const bool bits = kind == KernelKind::bits;
  const auto* kernel = bit_kernel_for(device, matrix, 0, bits ? 0 : 3);
  return kernel != nullptr && (bits || kernel->pairs != 0) &&
         bit_kernel_reach(*kernel, chunks) == chunks.bytes;
}

struct KernelCase : Case {
  Operation operation;
  const char* lost;

  std::size_t moved_chunks() const { return operation.reads.size() + operation.program->targets(); }
};

/// Of the chunks that are lost the last lost_coding ones are coding chunks. Moves `total` bytes.
KernelCase make_case(const std::string& op, Shape shape, std::size_t total, const char* lost,
                     unsigned lost_coding = 0) {
  const Case what{op, technique_for(shape), shape.first, shape.second};
  KernelCase c{what, make_operation(what, lost_coding), lost};
  constexpr std::size_t round = std::size_t{64} << 10;
  c.chunk_bytes = std::max<std::size_t>(total / c.moved_chunks() / round * round, granule);
  return c;
}

std::vector<KernelCase> cases_of(const CommandLine& line, std::size_t total) {
  std::vector<KernelCase> cases;
  for (const Shape& shape : line.shapes("shapes")) {
    const KernelCase encode = make_case("encode", shape, total, "");
    cases.push_back(encode);
    for (const std::size_t bytes : line.numbers("chunks", granule, gib, granule))
      cases.emplace_back(encode).chunk_bytes = bytes;
    cases.push_back(make_case("decode", shape, total, "data"));
    cases.push_back(make_case("decode", shape, total, "mixed", std::min(shape.first, shape.second) / 2));
  }
  return cases;
}

/// A row for each kernel that supports the case. total: bytes that a run moves.
void measure_case(const KernelCase& c, std::size_t total, const std::vector<std::string>& wanted,
                  Device& device, const Pace& pace, Report& report) {
  const std::size_t moved = c.moved_chunks() * c.chunk_bytes;
  const std::size_t count = (std::min(total, cold_source_bytes) + moved - 1) / moved;
  const std::size_t launches = std::max(count, total / moved);
  const Stripes stripes(c.operation, c.chunk_bytes, kernels::Residence::device, count);
  const auto view = [&](std::size_t s) {
    return ChunkViews{stripes.source_addresses(s), stripes.target_addresses(s), c.chunk_bytes};
  };
  const gf::Matrix& matrix = c.operation.program->matrix();

  // By the driver, of half of that memory: not a function of the product's table.
  static const auto copy = reinterpret_cast<PFN_cuMemcpyDtoDAsync_v3020>(
      dlsym(dlopen(current_options().driver_library.c_str(), RTLD_NOW), "cuMemcpyDtoDAsync_v2"));
  const std::size_t copied = stripes.memory().size() / 2048 * 1024;
  const auto other = allocate(kernels::Residence::device, copied);
  const std::size_t copies = (total + 2 * copied - 1) / (2 * copied);
  const auto lane = borrow_lane(device);
  const auto repeat = [&](std::size_t times, std::function<CUresult(std::size_t)> enqueue) {
    return [&, times, enqueue = std::move(enqueue)](std::size_t) {
      const Device::Scope scope(device);
      for (std::size_t i = 0; i < times; ++i) require(enqueue(i), "a launch");
      require(device.driver().stream_synchronize(lane->stream), "cuStreamSynchronize");
    };
  };
  const auto spoil = [&](std::size_t) {
    for (std::size_t s = 0; s < count; ++s) stripes.spoil(s);
  };
  const auto enqueue_copy = [&](std::size_t) {
    return copy(gpu_address(other.data()), gpu_address(stripes.memory().data()), copied, lane->stream);
  };
  std::vector<Contestant> contestants{
      {.name = "copy", .run = repeat(copies, enqueue_copy), .right = [](std::size_t) { return true; }}};
  for (const KernelKind kind : kinds) {
    if (std::ranges::count(wanted, name_of(kind)) == 0 || !supports(kind, device, matrix, view(0))) continue;
    const auto enqueue = [&, kind](std::size_t i) {
      return launch_stripe({device, matrix, view(i % count), {}, lane->stream}, kind);
    };
    contestants.push_back(
        {.name = name_of(kind), .run = repeat(launches, enqueue), .spoil = spoil, .right = [&](std::size_t) {
           return stripes.right(0) && stripes.right(count - 1);
         }});
  }
  Workers workers(1);
  const Figures figures(contestants, measure(workers, contestants, {}, pace));
  const double gb = 1e-9 * static_cast<double>(c.chunk_bytes * launches);
  const double moved_gb = gb * static_cast<double>(c.moved_chunks());
  const double copied_gb = 2e-9 * static_cast<double>(copied * copies);
  for (std::size_t i = 1; i < contestants.size(); ++i) {
    const Row row{{"coder", contestants[i].name},
                  {"erasures", c.operation.decodes() ? c.operation.program->targets() : 0},
                  {"lost", c.lost},
                  {"source_gbps", figures.per_second(i, gb * c.k)},
                  {"moved_gbps", figures.per_second(i, moved_gb)},
                  {"ratio_copy", figures.times(i, 0).value_or(0) * moved_gb / copied_gb},
                  {"noise", figures.noise_percent(i)}};
    report.add(row_of(c, row), figures.verified(i));
  }
}

int measure_gpu(const CommandLine& line) {
  const std::size_t total = line.number("total", mib, 32 * gib);
  const Pace pace{.rounds = line.number("runs", 3, most_rounds)};
  const auto cases = cases_of(line, total);
  std::vector<std::string> names;
  std::ranges::transform(kinds, std::back_inserter(names), name_of);
  const auto wanted = line.list("kernels", names);
  const auto device = bring_up_devices("gpu").front();
  Report report(line, {gpu_line(*device)});
  for (const KernelCase& c : cases) measure_case(c, total, wanted, *device, pace, report);
  return report.finish();
}

}  // namespace

Subcommand gpu() {
  return {"gpu",
          {{"kernels", "", "names as in the report; default all"},
           {"shapes", "4+2,6+3,8+3,8+4,10+4,12+4,16+4,20+4,32+8,64+16,128+32", "data+coding chunks"},
           {"total", "1536M", "bytes that a run moves, and the largest stripe has, read and written"},
           {"chunks", "64K,1M", "bytes of a chunk that encode has too, suffixes K, M, G"},
           {"runs", "13", "timed runs of each kernel, in turn"}},
          measure_gpu};
}

}  // namespace ec::bench
