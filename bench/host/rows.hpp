// What `ec_bench host` says: its rows, from one process or from many, and how well the router chose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/common/call_times.hpp"
#include "bench/common/measure.hpp"
#include "bench/common/report.hpp"

namespace ec::bench {

/// Calls that a back end finished, by the codec's stats.
struct RanCalls {
  std::string backend;
  std::uint64_t calls = 0;
};

/// What one entrant did in one case. Figures are medians over the samples; 0 if not verified.
struct HostRow {
  std::string op;
  unsigned k = 0;
  unsigned m = 0;
  std::size_t chunk_bytes = 0;
  std::string residence;
  unsigned processes = 1;
  unsigned threads = 1;         ///< of each process
  unsigned gpus = 1;            ///< that calls may be given to
  std::string backend;          ///< forced, or auto
  std::vector<RanCalls> ran{};  ///< those with the most calls first
  double source_gbps = 0;
  double ceiling_gbps = 0;  ///< source GB/s of the link; of a device copy for chunks on the device
  double call_us = 0;       ///< mean of a sample's calls
  double p50_us = 0;        ///< of all calls of all samples
  double p99_us = 0;
  double cpu_s_per_gb = 0;                    ///< of the host, for each GB of source
  std::optional<double> isal_cpu_s_per_gb{};  ///< of ISA-L in the same case and as many threads
  bool verified = false;
  double noise = 0;            ///< of call_us, percent
  bool judges_router = false;  ///< see HostCase
  std::vector<Sample> samples{};
  CallTimes calls{};

  double ratio_ceiling() const { return ceiling_gbps > 0 ? source_gbps / ceiling_gbps : 0; }
  /// "cuda", "cuda+x86".
  std::string chosen() const;
  /// Of the calls, what the first of them had; 0 if there were none.
  double chosen_share() const;
};

/// Sets the figures by samples and calls, at least one of each.
void fill_figures(HostRow& row);
/// The row of an entrant in many processes, by the rows of each; the ceiling is that of the first. Throws
/// std::runtime_error if they did not measure the same.
HostRow merge_rows(std::span<const HostRow> members);
/// Fills isal_cpu_s_per_gb of rows among which those of ISA-L are.
void set_isal_cpu(std::vector<HostRow>& rows);

extern const std::vector<Column> host_columns;
nlohmann::json to_json(const HostRow& row);
/// A row on the way from one process to another, with its samples and calls. The latter throws
/// nlohmann::json::exception.
nlohmann::json raw_json(const HostRow& row);
HostRow row_of_raw(const nlohmann::json& json);

/// Time of `auto` over that of the best forced back end, at every point where both were measured. The best
/// one is picked after the fact, so that noise alone puts the ratio above 1.
struct RouterWorth {
  std::size_t points = 0;
  double median = 0;
  double worst = 0;
  HostRow at_worst;           ///< that of auto
  std::string best_at_worst;  ///< the back end that was faster
};

/// Of the rows that judge the router; nothing if there is no such point.
std::optional<RouterWorth> router_worth(const std::vector<HostRow>& rows);
std::string worth_line(const RouterWorth& worth);

}  // namespace ec::bench
