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

struct KernelCase {
  std::string op;  ///< encode, decode
  gf::Technique technique = gf::Technique::reed_sol_van;
  unsigned k = 0;
  unsigned m = 0;
  unsigned erasures = 0;     ///< chunks that decode makes
  unsigned lost_coding = 0;  ///< of them; the others are data
  std::size_t chunk_bytes = 0;
  std::size_t stripes = 1;

  bool decodes() const { return op == "decode"; }
  unsigned sources() const { return k; }
  unsigned targets() const { return decodes() ? erasures : m; }
  const char* lost() const {
    return lost_coding == 0 ? "data" : lost_coding == erasures ? "coding" : "mixed";
  }
};

/// Moves `total` bytes.
KernelCase make_case(const std::string& op, Shape shape, std::size_t total, unsigned erasures = 0,
                     unsigned lost_coding = 0) {
  const auto [k, m] = shape;
  KernelCase c{.op = op, .technique = technique_for(shape), .k = k, .m = m};
  c.erasures = erasures;
  c.lost_coding = lost_coding;
  constexpr std::size_t granule = std::size_t{64} << 10;
  c.chunk_bytes = std::max<std::size_t>(total / (k + c.targets()) / granule * granule, xor_tile);
  return c;
}

std::vector<KernelCase> every_case(const std::vector<Shape>& shapes, std::size_t total) {
  std::vector<KernelCase> cases;
  for (const Shape& s : shapes) cases.push_back(make_case("encode", s, total));
  for (const Shape& s : shapes) {
    const unsigned m = s.second;
    cases.push_back(make_case("decode", s, total, 1));
    cases.push_back(make_case("decode", s, total, std::min(m, s.first)));
    cases.push_back(make_case("decode", s, total, 1, 1));
    cases.push_back(make_case("decode", s, total, std::min(m, s.first), std::min(m, s.first) / 2));
  }
  for (const Shape& s : shapes) {
    const auto is = [&](unsigned k, unsigned m) { return s == Shape{k, m}; };
    KernelCase c = make_case("encode", s, total);
    if (is(8, 3) || is(10, 4) || is(20, 4)) {
      // Without the row of ones of reed_sol_van.
      c.technique = gf::Technique::cauchy;
      cases.push_back(c);
      c.technique = gf::Technique::reed_sol_van;
    }
    for (c.chunk_bytes = 16 << 10; is(10, 4) && c.chunk_bytes <= total / 14; c.chunk_bytes *= 4)
      cases.push_back(c);
    if (is(8, 3)) {
      c.chunk_bytes = 4096;
      c.stripes = std::clamp<std::size_t>(total / (11 * c.chunk_bytes), 2, 4096);
      cases.push_back(c);
    }
  }
  return cases;
}

std::vector<KernelCase> cases_of(const CommandLine& line, std::size_t total) {
  const auto ops = line.list("ops", {"encode", "decode"});
  auto cases = every_case(line.shapes("shapes"), total);
  std::erase_if(cases, [&](const KernelCase& c) { return std::ranges::find(ops, c.op) == ops.end(); });
  return cases;
}

gf::Matrix matrix_of(const KernelCase& c) {
  gf::Matrix coding = gf::coding_matrix(c.technique, c.k, c.m);
  if (!c.decodes()) return coding;
  gf::ErasureSignature signature;
  for (unsigned i = 0; i < c.k + c.m; ++i) {
    if (i < c.erasures - c.lost_coding || (i >= c.k && i < c.k + c.lost_coding))
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
      : runs_(static_cast<unsigned>(line.number("runs", 3, 1000))),
        total_bytes_(total_bytes),
        own_kernels_(std::make_shared<GpuKernels>(device)),
        kernels_(ladder_contestants(own_kernels_, &left_out_)),
        xors_(xor_contestants(own_kernels_)),
        batches_(device, largest(cases, &KernelCase::sources), largest(cases, &KernelCase::targets)) {
    std::ranges::move(product_contestants(device), std::back_inserter(kernels_));
    std::vector<std::string> names = left_out_;
    for (const auto& kernel : kernels_) names.push_back(kernel.name);
    const auto chosen = line.list("kernels", names);
    std::erase_if(kernels_, [&](const auto& k) { return std::ranges::find(chosen, k.name) == chosen.end(); });
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
      if (kernel.supports(batches.front()))
        report.add(row_of(c, measure_kernel(kernel, batches), fastest_xor, copy));
  }

 private:
  std::size_t largest(const std::vector<KernelCase>& cases, unsigned (KernelCase::*chunks)() const) const {
    // Room for the copy, and for as many small batches as keep the cache cold.
    std::size_t most = std::min<std::size_t>(total_bytes_, std::size_t{768} << 20);
    for (const KernelCase& c : cases) most = std::max(most, (c.*chunks)() * c.chunk_bytes * c.stripes);
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

  static Row row_of(const KernelCase& c, const Measured& m, const Measured& fastest_xor, double copy) {
    const double of_byte =
        m.verified ? 1e-9 * static_cast<double>(c.chunk_bytes * c.stripes) / m.timing.seconds : 0;
    const double moved = of_byte * (c.k + c.targets());
    Row row{{"kernel", m.kernel},
            {"op", c.op},
            {"technique", gf::name(c.technique)},
            {"k", c.k},
            {"m", c.m},
            {"erasures", c.erasures},
            {"lost", c.lost()},
            {"chunk_bytes", c.chunk_bytes},
            {"stripes", c.stripes},
            {"source_gbps", of_byte * c.k},
            {"moved_gbps", moved},
            {"ratio_copy", moved * 1e9 / copy},
            {"ratio_xor", nullptr},
            {"noise", m.timing.noise},
            {"verified", m.verified}};
    if (fastest_xor.verified && m.verified) row["ratio_xor"] = fastest_xor.timing.seconds / m.timing.seconds;
    return row;
  }

  unsigned runs_;
  std::size_t total_bytes_;
  std::vector<std::string> left_out_;
  std::shared_ptr<GpuKernels> own_kernels_;
  std::vector<KernelContestant> kernels_;
  std::vector<KernelContestant> xors_;
  DeviceBatches batches_;
};

int run(const CommandLine& line, const std::vector<std::string>& arguments) {
  const std::size_t total = line.number("total", 1 << 20, std::size_t{32} << 30);
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
                                          line.text("runs"), cold_bytes >> 20)}}));
  if (!bench.left_out().empty())
    fmt::print("left out, for this driver has no such kernels: {}\n", fmt::join(bench.left_out(), ", "));
  for (const KernelCase& c : cases) bench.measure(c, report);
  return report.finish();
}

}  // namespace

int run_kernels(const std::vector<std::string>& arguments) {
  CommandLine line("kernels");
  line.add("kernels", "", "names as in the report; default all");
  line.add("shapes", "4+2,6+3,8+3,8+4,10+4,12+4,16+4,20+4,32+8,64+16,128+32", "data+coding chunks");
  line.add("ops", "", "encode, decode; default both");
  line.add("total", "1536M", "bytes moved by a run");
  line.add("runs", "13", "timed runs of each kernel");
  line.add("json", "", "write the report to this file too");
  return line.run(arguments, [&] { return run(line, arguments); });
}

}  // namespace ec::bench
