// The report: a header of circumstances and one row for each contestant and case, as a table and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/common/measure.hpp"

namespace ec::bench {

/// What a number depends on besides the code, in the order of the report.
using Header = std::vector<std::pair<std::string, std::string>>;

/// device, driver, cpu, host, commit, command (after the EC_CUDA_ variables that are set), date, last-level
/// cache, and what `more` adds.
Header make_header(const std::string& host_version, const std::string& command_line, const Header& more);

std::string header_text(const Header& header);
/// The line above the rows; as wide as they are.
std::string table_head();
std::string table_row(const Row& row);
nlohmann::json to_json(const Header& header, const std::vector<Row>& rows);

}  // namespace ec::bench
