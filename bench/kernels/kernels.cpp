// The cases of `ec_bench kernels`, and its report.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "bench/common/report.hpp"
#include "bench/kernels/batches.hpp"
#include "bench/kernels/contestants.hpp"
#include "bench/kernels/xor_args.hpp"
#include "bench/subcommands.hpp"
#include "gf/decode_plan.hpp"

namespace ec::bench {
namespace {

/// More than twice the largest cache of a device.
constexpr std::size_t cold_bytes = std::size_t{256} << 20;

const std::vector<std::string> every_op{"encode", "decode"};
/// What decode has lost: data chunks, coding chunks, or as many of these as of those and one more of those.
const std::vector<std::string> every_lost{"data", "coding", "mixed"};

const std::vector<Column> columns{{"kernel", "kernel", -22},
                                  {"op", "op", -7},
                                  {"technique", "technique", -12},
                                  {"k", "k", 3},
                                  {"m", "m", 3},
                                  {"made", "erasures", 4},
                                  {"lost", "lost", 6},
                                  {"chunk B", "chunk_bytes", 10},
                                  {"stripes", "stripes", 7},
                                  {"source", "source_gbps", 8, 1},
                                  {"moved", "moved_gbps", 8, 1},
                                  {"of copy", "ratio_copy", 7, 3},
                                  {"of xor", "ratio_xor", 7, 3},
                                  {"noise %", "noise", 7, 1}};

struct KernelCase {
  bool decode = false;
  gf::Technique technique = gf::Technique::reed_sol_van;
  unsigned k = 0;
  unsigned m = 0;
  unsigned erasures = 0;  ///< chunks that decode makes; 0: encode
  std::string lost = "data";
  std::size_t chunk_bytes = 0;
  std::size_t stripes = 1;

  unsigned targets() const { return decode ? erasures : m; }
  /// Of the chunks that decode makes.
  unsigned lost_coding() const { return lost == "data" ? 0 : lost == "coding" ? erasures : erasures / 2; }
};

struct Asked {
  std::size_t total_bytes;  ///< moved by a run where no chunk length is given
  std::size_t stripes = 1;
  std::string lost = "data";
};

/// chunk_bytes 0: what makes the total.
KernelCase make_case(const Asked& asked, const std::string& op, Shape shape, unsigned erasures,
                     std::size_t chunk_bytes = 0) {
  KernelCase c{.decode = op == "decode", .k = shape.first, .m = shape.second, .stripes = asked.stripes};
  c.technique = technique_for(shape);
  if (c.decode) {
    c.erasures = std::min({erasures, c.m, c.k});
    c.lost = asked.lost;
  }
  constexpr std::size_t granule = std::size_t{64} << 10;
  const std::size_t fitting = asked.total_bytes / (c.k + c.targets()) / asked.stripes;
  c.chunk_bytes =
      chunk_bytes != 0 ? chunk_bytes : std::max<std::size_t>(fitting / granule * granule, xor_tile);
  return c;
}

std::vector<KernelCase> documented_cases(std::size_t total) {
  const Asked data{total}, coding{total, 1, "coding"}, mixed{total, 1, "mixed"};
  std::vector<KernelCase> cases;
  const std::vector<Shape> shapes{{4, 2},  {6, 3},  {8, 3},  {8, 4},   {10, 4},  {12, 4},
                                  {16, 4}, {20, 4}, {32, 8}, {64, 16}, {128, 32}};
  for (const Shape& s : shapes) cases.push_back(make_case(data, "encode", s, 0));
  for (const Shape& s : shapes) {
    if (s.first > 32) continue;
    cases.push_back(make_case(data, "decode", s, 1));
    cases.push_back(make_case(data, "decode", s, s.second));
    cases.push_back(make_case(coding, "decode", s, 1));
    cases.push_back(make_case(mixed, "decode", s, s.second));
  }
  // Without the row of ones of reed_sol_van.
  for (const Shape& s : {Shape{8, 3}, Shape{10, 4}, Shape{20, 4}}) {
    cases.push_back(make_case(data, "encode", s, 0));
    cases.back().technique = gf::Technique::cauchy;
  }
  for (std::size_t chunk = 16 << 10; chunk <= std::min<std::size_t>(64 << 20, total / 14); chunk *= 4)
    cases.push_back(make_case(data, "encode", {10, 4}, 0, chunk));  // 1 MiB among them
  cases.push_back(make_case({total, 4096}, "encode", {8, 3}, 0, 4096));
  return cases;
}

std::vector<KernelCase> cases_of(const CommandLine& line, std::size_t total) {
  const Asked asked{total, line.size("stripes", 1, 1 << 20), line.one_of("lost", every_lost)};
  if (!line.given("shapes") && !line.given("ops") && !line.given("chunk") && asked.stripes == 1)
    return documented_cases(total);
  const auto shapes = line.given("shapes") ? line.shapes("shapes") : std::vector<Shape>{{8, 3}, {10, 4}};
  const auto ops = line.given("ops") ? line.list("ops", every_op) : std::vector<std::string>{"encode"};
  auto chunks = line.sizes("chunk", xor_tile, std::size_t{4} << 30, xor_tile);
  if (chunks.empty()) chunks = {0};
  std::vector<KernelCase> cases;
  for (const auto& op : ops)
    for (const Shape& shape : shapes)
      for (const std::size_t chunk : chunks) {
        auto erasures = line.numbers("erasures", 1, gf::max_chunks);
        if (erasures.empty() || op == "encode") erasures = {shape.second};
        for (const unsigned e : erasures) cases.push_back(make_case(asked, op, shape, e, chunk));
      }
  return cases;
}

gf::Matrix matrix_of(const KernelCase& c) {
  gf::Matrix coding = gf::coding_matrix(c.technique, c.k, c.m);
  if (!c.decode) return coding;
  gf::ErasureSignature signature;
  for (unsigned i = 0; i < c.k + c.m; ++i) {
    if (i < c.erasures - c.lost_coding() || (i >= c.k && i < c.k + c.lost_coding()))
      signature.wanted.insert(i);
    else
      signature.available.insert(i);
  }
  return gf::make_decode_plan(coding, signature).value().matrix;
}

/// A row of ones for each target: what the XOR kernel computes.
gf::Matrix sum_of(const KernelCase& c) {
  gf::Matrix ones(c.targets(), c.k);
  for (unsigned t = 0; t < ones.rows(); ++t)
    for (unsigned s = 0; s < ones.cols(); ++s) ones(t, s) = 1;
  return ones;
}

struct Measured {
  std::string kernel;
  bool verified = false;
  KernelTiming timing{};  ///< of one launch
};

class KernelBench {
 public:
  KernelBench(const CommandLine& line, std::size_t total_bytes, const std::vector<KernelCase>& cases,
              const std::shared_ptr<Device>& device)
      : runs_(line.number("runs", 3, 1000)),
        total_bytes_(total_bytes),
        own_kernels_(std::make_shared<GpuKernels>(device)),
        kernels_(kernel_contestants(device, own_kernels_, &left_out_)),
        xors_(xor_contestants(own_kernels_, *device)),
        batches_(device, largest(cases, [](const KernelCase& c) { return c.k; }),
                 largest(cases, [](const KernelCase& c) { return c.targets(); })) {
    std::vector<std::string> names = left_out_;
    for (const auto& kernel : kernels_) names.push_back(kernel.name);
    chosen_ = line.list("kernels", names);
  }

  const std::vector<std::string>& left_out() const { return left_out_; }

  /// The XOR row first, then one for each kernel that supports the case.
  void measure(const KernelCase& c, Report& report) {
    const double copy = batches_.copy_rate(runs_);
    const kernels::Program program(matrix_of(c));
    const kernels::Program sum(sum_of(c));
    const auto batches =
        batches_.lay_out(program, c.chunk_bytes, c.stripes, std::min(cold_bytes, total_bytes_));
    std::vector<StripeBatch> sums(batches.begin(), batches.end());
    for (auto& b : sums) b.program = &sum;

    Measured fastest_xor{.kernel = "xor"};
    for (const auto& x : xors_) {
      const Measured m = measure_kernel(x, sums);
      if (!m.verified) throw std::runtime_error(fmt::format("{} made wrong bytes", m.kernel));
      if (!fastest_xor.verified || m.timing.seconds < fastest_xor.timing.seconds)
        fastest_xor = {"xor", true, m.timing};
    }
    if (fastest_xor.verified) report.add(row_of(c, fastest_xor, fastest_xor, copy));
    for (const auto& kernel : kernels_)
      if (std::ranges::find(chosen_, kernel.name) != chosen_.end() && kernel.supports(batches.front()))
        report.add(row_of(c, measure_kernel(kernel, batches), fastest_xor, copy));
  }

 private:
  template <class Chunks>
  std::size_t largest(const std::vector<KernelCase>& cases, Chunks chunks) const {
    // Room for the copy, and for as many small batches as keep the cache cold.
    std::size_t most = std::min<std::size_t>(total_bytes_, std::size_t{768} << 20);
    for (const KernelCase& c : cases) most = std::max(most, chunks(c) * c.chunk_bytes * c.stripes);
    return most;
  }

  /// Times, then verifies what that left; a run is one launch for each batch.
  Measured measure_kernel(const KernelContestant& kernel, std::span<const StripeBatch> batches) {
    for (const StripeBatch& b : batches) batches_.spoil(b);
    Measured m{kernel.name};
    m.timing = batches_.time(runs_, [&](CUstream stream) {
      for (const StripeBatch& b : batches) kernel.launch(b, stream);
    });
    m.timing.seconds /= static_cast<double>(batches.size());
    m.verified = batches_.right(batches.front()) && batches_.right(batches.back());
    return m;
  }

  static nlohmann::json row_of(const KernelCase& c, const Measured& m, const Measured& fastest_xor,
                               double copy) {
    const double of_byte =
        m.verified ? 1e-9 * static_cast<double>(c.chunk_bytes * c.stripes) / m.timing.seconds : 0;
    const double moved = of_byte * (c.k + c.targets());
    nlohmann::json row{{"kernel", m.kernel},
                       {"op", c.decode ? "decode" : "encode"},
                       {"technique", gf::name(c.technique)},
                       {"k", c.k},
                       {"m", c.m},
                       {"erasures", c.erasures},
                       {"lost", c.lost_coding() == 0 ? "data" : c.lost},
                       {"chunk_bytes", c.chunk_bytes},
                       {"stripes", c.stripes},
                       {"source_gbps", of_byte * c.k},
                       {"moved_gbps", moved},
                       {"ratio_copy", moved * 1e9 / copy},
                       {"ratio_xor", nullptr},
                       {"noise", m.timing.noise},
                       {"verified", m.verified}};
    if (fastest_xor.verified)
      row["ratio_xor"] = m.verified ? fastest_xor.timing.seconds / m.timing.seconds : 0;
    return row;
  }

  unsigned runs_;
  std::size_t total_bytes_;
  std::vector<std::string> left_out_;
  std::shared_ptr<GpuKernels> own_kernels_;
  std::vector<KernelContestant> kernels_;
  std::vector<KernelContestant> xors_;
  std::vector<std::string> chosen_;
  DeviceBatches batches_;
};

int run(const CommandLine& line, const std::vector<std::string>& arguments) {
  const std::size_t total = line.size("total", 1 << 20, std::size_t{32} << 30);
  const auto cases = cases_of(line, total);
  Report report(line.text("json"));
  const auto device = bring_up_devices("kernels").front();
  const Device::Scope scope(*device);
  require(scope.result(), "cuCtxPushCurrent");
  KernelBench bench(line, total, cases, device);
  report.begin(
      make_header("none", "kernels", arguments,
                  {gpu_line(*device),
                   {"timing", fmt::format("median of {} runs between events; a run codes at least {} MiB of "
                                          "chunks in turn, where there is one launch for less",
                                          line.text("runs"), cold_bytes >> 20)}}),
      columns);
  if (!bench.left_out().empty())
    fmt::print("left out, for this driver has no such kernels: {}\n", fmt::join(bench.left_out(), ", "));
  for (const KernelCase& c : cases) bench.measure(c, report);
  return report.finish();
}

}  // namespace

int run_kernels(const std::vector<std::string>& arguments) {
  CommandLine line("kernels");
  line.add("kernels", "", "names as in the report; default all");
  line.add("shapes", "", "data+coding chunks, as 8+3,10+4");
  line.add("ops", "", "encode, decode; default encode");
  line.add("erasures", "", "chunks that decode makes; default m");
  line.add("lost", "data", "which ones decode makes: data, coding, mixed");
  line.add("chunk", "", "bytes of a chunk, multiples of 1024; default: what makes --total");
  line.add("stripes", "1", "stripes coded by one launch");
  line.add("total", "1536M", "bytes moved by a run where --chunk is not given");
  line.add("runs", "13", "timed runs of each kernel");
  line.add("json", "", "write the report to this file too");
  return line.run(arguments, [&] { return run(line, arguments); });
}

}  // namespace ec::bench
