// The report of every sub-command: a header of circumstances and a row for each contestant and case, as a
// table while it is measured and as JSON in a file.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/common/options.hpp"

namespace ec::bench {

/// What a number depends on besides the code, in the order of the report.
using Header = std::vector<std::pair<std::string, std::string>>;

/// device, driver, cpu, host, commit, command (after the EC_CUDA_ variables that are set), date, last-level
/// cache, and what `more` adds. arguments: those of the sub-command.
Header make_header(const std::string& host_version, const std::string& subcommand,
                   const std::vector<std::string>& arguments, const Header& more);

/// Bytes of the last-level cache as the system reports it; 0 if it does not.
std::size_t last_level_cache_bytes();

/// Fields in the order of the table. `verified` says whether the bytes were right. Fields that are null have
/// no value.
using Row = nlohmann::ordered_json;

class Report {
 public:
  /// file: of the JSON; empty: none. It is opened before anything is measured. Throws UsageError if it cannot
  /// be.
  explicit Report(const std::string& file);

  void begin(const Header& header);
  /// Prints the row, the first one with its titles, and keeps it.
  void add(const Row& row);
  /// Another part of the JSON, beside header and rows.
  nlohmann::json& operator[](const std::string& part) { return document_[part]; }
  /// Writes the file. The exit status: 0, or 1 if a row was not verified. Throws std::runtime_error.
  int finish();

 private:
  std::string name_;
  std::ofstream file_;
  nlohmann::json document_;
  bool all_verified_ = true;
};

}  // namespace ec::bench
