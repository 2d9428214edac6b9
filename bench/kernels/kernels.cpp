#include "bench/kernels/kernels.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "bench/common/options.hpp"
#include "bench/common/report.hpp"
#include "bench/common/run.hpp"
#include "bench/kernels/kernel_contestant.hpp"
#include "bench/kernels/kernel_options.hpp"
#include "bench/kernels/kernel_room.hpp"
#include "gf/decode_plan.hpp"
#include "kernels/cuda/device/devices.hpp"

namespace ec::bench {
namespace {

/// More than twice the largest cache of a device.
constexpr std::size_t cold_bytes = std::size_t{256} << 20;

struct KernelRow {
  std::string kernel;
  KernelCase what;
  bool verified = false;
  KernelTiming timing;  ///< of one launch
  double ratio_copy = 0;
  double ratio_xor = 0;

  double gbps(double bytes) const { return verified ? 1e-9 * bytes / timing.seconds : 0; }
  double source_gbps() const { return gbps(static_cast<double>(what.k * what.chunk_bytes * what.stripes)); }
  double moved_gbps() const { return gbps(static_cast<double>(what.moved_bytes())); }
};

gf::Matrix matrix_of(const KernelCase& c) {
  gf::Matrix coding = gf::coding_matrix(c.technique, c.k, c.m);
  if (!c.decode) return coding;
  gf::ErasureSignature signature;
  for (unsigned i = 0; i < c.k + c.m; ++i) {
    if (i < c.erasures - c.lost_coding || (i >= c.k && i < c.k + c.lost_coding))
      signature.wanted.insert(i);
    else
      signature.available.insert(i);
  }
  return gf::make_decode_plan(coding, signature).value().matrix;
}

/// Verifies, then times; a run is one launch for each batch.
KernelRow measure_kernel(KernelRoom& room, KernelContestant& kernel, const KernelCase& c,
                         std::span<const StripeBatch> batches, unsigned runs) {
  KernelRow row;
  row.kernel = kernel.name();
  row.what = c;
  kernel.prepare(batches.front());
  const auto all = [&](CUstream stream) {
    for (const StripeBatch& b : batches) kernel.launch(b, stream);
  };
  for (const StripeBatch& b : batches) room.poison(b);
  row.timing = room.time(runs, all);
  row.timing.seconds /= static_cast<double>(batches.size());
  row.verified = room.verify(batches.front()) && room.verify(batches.back());
  return row;
}

std::string table_head() {
  return fmt::format("{:<22} {:<7} {:<12} {:>3} {:>3} {:>5} {:>10} {:>7} {:>8} {:>8} {:>7} {:>7} {:>7}",
                     "kernel", "op", "technique", "k", "m", "lost", "chunk B", "stripes", "source", "moved",
                     "of copy", "of xor", "noise %");
}

std::string table_line(const KernelRow& r) {
  const KernelCase& c = r.what;
  const auto left =
      fmt::format("{:<22} {:<7} {:<12} {:>3} {:>3} {:>5} {:>10} {:>7} ", r.kernel,
                  c.decode ? "decode" : "encode", gf::name(c.technique), c.k, c.m,
                  fmt::format("{}+{}", c.erasures - c.lost_coding, c.lost_coding), c.chunk_bytes, c.stripes);
  if (!r.verified) return left + "WRONG BYTES";
  return left + fmt::format("{:>8.1f} {:>8.1f} {:>7.3f} {:>7.3f} {:>7.1f}", r.source_gbps(), r.moved_gbps(),
                            r.ratio_copy, r.ratio_xor, r.timing.noise);
}

nlohmann::json to_json(const KernelRow& r) {
  const KernelCase& c = r.what;
  return {{"kernel", r.kernel},
          {"op", c.decode ? "decode" : "encode"},
          {"technique", gf::name(c.technique)},
          {"k", c.k},
          {"m", c.m},
          {"erasures", c.erasures},
          {"lost", c.lost_coding == 0            ? "data"
                   : c.lost_coding == c.erasures ? "coding"
                                                 : "mixed"},
          {"chunk_bytes", c.chunk_bytes},
          {"stripes", c.stripes},
          {"source_gbps", r.source_gbps()},
          {"moved_gbps", r.moved_gbps()},
          {"ratio_copy", r.ratio_copy},
          {"ratio_xor", r.ratio_xor},
          {"noise", r.timing.noise},
          {"verified", r.verified}};
}

class KernelRun {
 public:
  KernelRun(const KernelOptions& options, std::shared_ptr<kernels::cuda::Device> device)
      : options_(options),
        kernels_(kernel_contestants(device)),
        xors_(xor_contestants(device)),
        room_(device, largest([](const KernelCase& c) { return c.k; }),
              largest([](const KernelCase& c) { return c.targets(); })) {
    for (const auto& name : options.kernels)
      if (std::ranges::none_of(kernels_, [&](const auto& k) { return k->name() == name; }))
        throw UsageError(fmt::format("--kernels {}: must be of {}", name, fmt::join(names(), ", ")));
  }

  /// The XOR row first, then one for each kernel that supports the case.
  std::vector<KernelRow> measure(const KernelCase& c) {
    const double copy = room_.copy_rate(options_.runs);
    const kernels::Program program(matrix_of(c));
    const auto batches =
        room_.lay_out(program, c.chunk_bytes, c.stripes, std::min(cold_bytes, options_.total_bytes));
    // XOR is verified as what it is: the product with a row of ones for each target.
    gf::Matrix ones(c.targets(), c.k);
    for (unsigned t = 0; t < ones.rows(); ++t)
      for (unsigned s = 0; s < ones.cols(); ++s) ones(t, s) = 1;
    const kernels::Program sum(ones);
    std::vector<StripeBatch> sums(batches.begin(), batches.end());
    for (auto& b : sums) b.program = &sum;

    std::vector<KernelRow> rows(1);
    for (const auto& x : xors_) {
      KernelRow row = measure_kernel(room_, *x, c, sums, options_.runs);
      if (!row.verified) throw std::runtime_error(fmt::format("{} made wrong bytes", row.kernel));
      if (!rows[0].verified || row.moved_gbps() > rows[0].moved_gbps()) rows[0] = row;
    }
    rows[0].kernel = "xor";
    for (const auto& kernel : kernels_)
      if (chosen(*kernel) && kernel->supports(batches.front()))
        rows.push_back(measure_kernel(room_, *kernel, c, batches, options_.runs));
    for (KernelRow& row : rows) {
      row.ratio_copy = row.moved_gbps() * 1e9 / copy;
      row.ratio_xor = row.moved_gbps() / rows[0].moved_gbps();
    }
    return rows;
  }

 private:
  template <class Chunks>
  std::size_t largest(Chunks chunks) const {
    // Room for the copy, and for as many small batches as keep the cache cold.
    std::size_t most = std::min<std::size_t>(options_.total_bytes, std::size_t{768} << 20);
    for (const KernelCase& c : options_.cases) most = std::max(most, chunks(c) * c.chunk_bytes * c.stripes);
    return most;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const auto& k : kernels_) list.push_back(k->name());
    return list;
  }
  bool chosen(const KernelContestant& kernel) const {
    return options_.kernels.empty() ||
           std::ranges::find(options_.kernels, kernel.name()) != options_.kernels.end();
  }

  const KernelOptions& options_;
  KernelContestants kernels_;
  KernelContestants xors_;
  KernelRoom room_;
};

int run(const KernelOptions& o, const std::vector<std::string>& arguments) {
  std::string why;
  const auto device = kernels::cuda::Devices::instance().acquire_waiting(&why);
  if (!device) throw std::runtime_error("no device: " + why);
  kernels::cuda::Device::Scope scope(*device);
  require(device->driver(), scope.result(), "cuCtxPushCurrent");
  const auto& info = device->info();
  const Header header = make_header(
      "none", fmt::format("ec_bench kernels {}", fmt::join(arguments, " ")),
      {{"gpu", fmt::format("{}, compute capability {}.{}, {} multiprocessors", info.name, info.compute_major,
                           info.compute_minor, info.multiprocessors)},
       {"timing",
        fmt::format("median of {} runs between events; a run codes at least {} MiB of chunks in turn, "
                    "where there is one launch for less",
                    o.runs, cold_bytes >> 20)}});
  fmt::print("{}\n{}\n", header_text(header), table_head());
  KernelRun bench(o, device);
  nlohmann::json report;
  for (const auto& [key, value] : header) report["header"][key] = value;
  report["rows"] = nlohmann::json::array();
  bool sound = true;
  for (const KernelCase& c : o.cases)
    for (const KernelRow& row : bench.measure(c)) {
      fmt::print("{}\n", table_line(row));
      std::fflush(stdout);
      sound = sound && row.verified;
      report["rows"].push_back(to_json(row));
    }
  if (!o.json_file.empty()) {
    std::ofstream json(o.json_file);
    json << report.dump(1) << '\n';
    if (!json.flush()) throw std::runtime_error("cannot write " + o.json_file);
  }
  return sound ? 0 : 1;
}

}  // namespace

int run_kernels(const std::vector<std::string>& arguments) {
  return exit_status_of([&] {
    const KernelOptions options = parse_kernel_options(arguments);
    if (options.help.empty()) return run(options, arguments);
    fmt::print("{}", options.help);
    return 0;
  });
}

}  // namespace ec::bench
