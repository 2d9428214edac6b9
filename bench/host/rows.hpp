// What `ec_bench host` says: its rows, from one process or from many, and how well the router chose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/common/measure.hpp"
#include "bench/common/report.hpp"

namespace ec::bench {

/// Calls that a back end finished, by the codec's stats.
struct RanCalls {
  std::string backend;
  std::uint64_t calls = 0;
};

/// What one entrant did in one case.
struct HostRow {
  std::string op;
  unsigned k = 0;
  unsigned m = 0;
  std::size_t chunk_bytes = 0;
  std::string residence;
  unsigned processes = 1;
  unsigned threads = 1;  ///< of each process
  unsigned gpus = 1;     ///< that calls may be given to
  std::string backend;   ///< forced, or auto
  bool verified = false;
  bool judges_router = false;   ///< see HostCase
  double ceiling_gbps = 0;      ///< source GB/s of the link; of a device copy for chunks on the device
  std::vector<RanCalls> ran{};  ///< those with the most calls first
  std::vector<Sample> samples{};
  CallTimes calls{};

  /// Means of the samples' calls; their median is the row's.
  std::vector<double> call_us() const;
  /// Of the host, for each GB of source; the median of the samples.
  double cpu_s_per_gb() const;
  double source_gb() const { return 1e-9 * static_cast<double>(k * chunk_bytes); }
  /// "cuda", "cuda+x86".
  std::string chosen() const;
};

// On the way from one process to another.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Sample, calls_per_second, cpu_seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RanCalls, backend, calls)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostRow, op, k, m, chunk_bytes, residence, processes, threads, gpus,
                                   backend, verified, judges_router, ceiling_gbps, ran, samples, calls)

/// The row of an entrant in many processes, by the rows of each; the ceiling is that of the first. Throws
/// std::runtime_error if they did not measure the same.
HostRow merge_rows(std::span<const HostRow> members);

/// In the report. all: rows among which those of ISA-L in the same case are. Without figures if not verified.
Row report_row(const HostRow& row, std::span<const HostRow> all);

/// Time of `auto` over that of the best forced back end, at every point where both were measured. The best
/// one is picked after the fact, so that noise alone puts the ratio above 1.
struct RouterWorth {
  std::size_t points = 0;
  double median = 0;
  double worst = 0;
  std::string at_worst;  ///< in words
};

/// Of the rows that judge the router; nothing if there is no such point.
std::optional<RouterWorth> router_worth(std::span<const HostRow> rows);

}  // namespace ec::bench
