// The report of `ec_bench cpu`: every figure beside the memory limit of the same run.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/measure.hpp"
#include "bench/common/report.hpp"

namespace ec::bench {

struct CpuRow {
  Case what;
  std::string contestant;
  std::string layout;
  double call_us = 0;      ///< microseconds of one call, median
  double source_gbps = 0;  ///< k x chunk, all threads; 0 where an operation has no chunks
  double limit_gbps = 0;   ///< of the fastest loop that only moves the bytes; 0 without
  double ratio_limit = 0;  ///< median of the rounds' ratios to that loop
  double ratio_isal = 0;   ///< the same to the linked ISA-L
  double noise = 0;        ///< percent
  bool verified = false;
};

/// The coding contestants of one case, with the fastest limit among the rows.
std::vector<CpuRow> cpu_rows(const std::vector<Row>& rows, std::string_view layout);

std::string cpu_table_head();
std::string cpu_table_row(const CpuRow& row);
nlohmann::json to_json(const Header& header, const std::vector<CpuRow>& rows);

}  // namespace ec::bench
