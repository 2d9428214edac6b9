#include "bench/cpu/cpu_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/common/stats.hpp"
#include "bench/cpu/cpu_road.hpp"

namespace ec::bench {
namespace {

double gbps(const Row& row) {
  return static_cast<double>(object_bytes_per_call(row.what) * row.what.threads) / median(row.call_seconds) *
         1e-9;
}

const Row* fastest_limit(const std::vector<Row>& rows) {
  const Row* best = nullptr;
  for (const Row& row : rows)
    if (is_limit(row.contestant) && row.verified && (best == nullptr || gbps(row) > gbps(*best))) best = &row;
  return best;
}

/// A figure that a row does not have.
nlohmann::json or_null(double figure) { return figure == 0 ? nlohmann::json() : nlohmann::json(figure); }

double median_ratio(const Row& row, const Row& base) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < row.call_seconds.size(); ++i)
    ratios.push_back(base.call_seconds[i] / row.call_seconds[i]);
  return median(ratios);
}

}  // namespace

std::vector<CpuRow> cpu_rows(const std::vector<Row>& rows, std::string_view layout) {
  const Row* limit = fastest_limit(rows);
  std::vector<CpuRow> result;
  for (const Row& row : rows) {
    // A limit that did not move what it should is as wrong as a contestant.
    if (is_limit(row.contestant) && row.verified) continue;
    CpuRow& out = result.emplace_back();
    out.what = row.what;
    out.contestant = row.contestant;
    out.layout = layout;
    out.verified = row.verified;
    if (!row.verified) continue;
    out.call_us = 1e6 * median(row.call_seconds);
    out.source_gbps = gbps(row);
    out.noise = noise_percent(row.call_seconds);
    out.ratio_isal = row.ratio;
    if (limit == nullptr) continue;
    out.limit_gbps = gbps(*limit);
    out.ratio_limit = median_ratio(row, *limit);
  }
  return result;
}

std::string cpu_table_head() {
  return fmt::format(
      "{:<10} {:>3} {:>2} {:>4} {:>8} {:<10} {:<4} {:>7} {:<22} {:>9} {:>8} {:>8} {:>8} {:>8} {:>7}", "op",
      "k", "m", "lost", "chunk B", "layout", "mem", "threads", "contestant", "us/call", "GB/s", "limit",
      "of limit", "of isal", "noise %");
}

std::string cpu_table_row(const CpuRow& row) {
  const Case& c = row.what;
  const std::string left =
      fmt::format("{:<10} {:>3} {:>2} {:>4} {:>8} {:<10} {:<4} {:>7} {:<22} ", c.op, c.k, c.m, c.erasures,
                  c.chunk_bytes, row.layout, c.cold ? "cold" : "warm", c.threads, row.contestant);
  if (!row.verified) return left + "WRONG BYTES";
  return left + fmt::format("{:>9.3f} {:>8.2f} {:>8.2f} {:>8.3f} {:>8.3f} {:>7.1f}", row.call_us,
                            row.source_gbps, row.limit_gbps, row.ratio_limit, row.ratio_isal, row.noise);
}

nlohmann::json to_json(const Header& header, const std::vector<CpuRow>& rows) {
  nlohmann::json report;
  for (const auto& [key, value] : header) report["header"][key] = value;
  report["rows"] = nlohmann::json::array();
  for (const CpuRow& row : rows) {
    const Case& c = row.what;
    report["rows"].push_back({{"contestant", row.contestant},
                              {"road", "direct"},
                              {"op", c.op},
                              {"technique", gf::name(c.technique)},
                              {"k", c.k},
                              {"m", c.m},
                              {"erasures", c.erasures},
                              {"chunk_bytes", c.chunk_bytes},
                              {"layout", row.layout},
                              {"temperature", c.cold ? "cold" : "warm"},
                              {"threads", c.threads},
                              {"call_us", row.call_us},
                              {"source_gbps", or_null(row.source_gbps)},
                              {"limit_gbps", or_null(row.limit_gbps)},
                              {"ratio_limit", or_null(row.ratio_limit)},
                              {"ratio_isal", row.ratio_isal},
                              {"ratio_isa_plugin", nullptr},
                              {"noise", row.noise},
                              {"verified", row.verified}});
  }
  return report;
}

}  // namespace ec::bench
