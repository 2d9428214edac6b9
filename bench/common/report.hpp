// The report of every sub-command, as CSV: a header of circumstances and a row for each contestant and case.
#pragma once

#include <concepts>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/common/options.hpp"

namespace ec::bench {

/// Lines of what a number depends on besides the code: a name, and a text; without one it is left out.
using Header = std::vector<std::pair<std::string, std::string>>;

/// Bytes of the cache of that level, 2 or 3, as the kernel reports it; 0 if it does not.
std::size_t cache_bytes(int level);

/// Nothing, a whole number, a measured one (nothing if it is none), or a text.
struct Value {
  Value() = default;
  Value(std::integral auto number) : text(std::to_string(number)) {}
  Value(double figure);
  Value(std::optional<double> figure) : Value(figure ? Value(*figure) : Value()) {}
  Value(std::convertible_to<std::string_view> auto const& given) : text(given) {}

  std::string text{};
};

/// Fields in the order of the report.
using Row = std::vector<std::pair<const char*, Value>>;
/// What was done, and more.
Row row_of(const Case& c, const Row& more);

class Report {
 public:
  /// Opens the file of --csv, when nothing of the command line is left to check, and begins with lines
  /// "# name: value": machine, driver, commit, command, date, and those of `more`. Throws UsageError if the
  /// file cannot be opened, and, as the others do, std::runtime_error if something cannot be written.
  explicit Report(const CommandLine& line, const Header& more = {});

  /// What was measured of whom; before the first one the titles, which are the same of all rows of a report.
  /// If the bytes were not right, it is no row, but a note.
  void add(const Row& row, bool verified = true);
  /// Another line of the header, behind the rows.
  void note(const std::string& name, const std::string& text) { say("# " + name + ": " + text); }
  /// The exit status: 0, or 1 if bytes were wrong. Throws std::runtime_error if there is no row.
  int finish();

 private:
  void say(std::string line);

  std::ofstream file_;
  bool has_titles_ = false;
  bool all_right_ = true;
};

}  // namespace ec::bench
