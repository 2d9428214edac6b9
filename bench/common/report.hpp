// The report of every sub-command: a header of circumstances and a row for each contestant and case, as a
// table while it is measured and as CSV in a file.
#pragma once

#include <concepts>
#include <fstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bench/common/options.hpp"

namespace ec::bench {

/// What a number depends on besides the code, in the order of the report.
using Header = std::vector<std::pair<std::string, std::string>>;

/// machine, driver, host, commit, command (after the EC_CUDA_ variables that are set), date, and what `more`
/// adds. arguments: those of the sub-command.
Header make_header(const std::string& host_version, const std::string& subcommand,
                   const std::vector<std::string>& arguments, const Header& more);

/// Bytes of the last-level cache as the system reports it; 0 if it does not.
std::size_t last_level_cache_bytes();

/// Nothing, a whole number, a measured one, or a text.
class Value {
 public:
  Value() = default;
  Value(std::integral auto number) : value_(static_cast<std::uint64_t>(number)) {}
  Value(double figure) : value_(figure) {}
  Value(std::string text) : value_(std::move(text)) {}
  Value(std::string_view text) : value_(std::string(text)) {}
  Value(const char* text) : value_(std::string(text)) {}

  /// Empty where there is nothing.
  std::string text() const;

 private:
  std::variant<std::monostate, std::uint64_t, double, std::string> value_;
};

/// Fields in the order of the table; all rows of a report have the same.
using Row = std::vector<std::pair<const char*, Value>>;

class Report {
 public:
  /// file: of the CSV; empty: none. It is opened before anything is measured. Throws UsageError if it cannot
  /// be.
  explicit Report(const std::string& file);

  /// CSV: lines "# name: value".
  void begin(const Header& header);
  /// Prints the row, the first one with its titles, and writes it.
  void add(const Row& row, bool verified);
  /// Another line of the header, behind the rows.
  void note(const std::string& name, const std::string& text);
  /// The exit status: 0, or 1 if a row was not verified. Throws std::runtime_error if the file was not
  /// written.
  int finish();

 private:
  std::string name_;
  std::ofstream file_;
  bool has_titles_ = false;
  bool all_verified_ = true;
};

/// The option of every sub-command that has a report.
void add_report_option(CommandLine& line);

}  // namespace ec::bench
