// The command line of ec_bench.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/common/contestant.hpp"
#include "bench/common/measure.hpp"

namespace ec::bench {

/// A command line that cannot be used; the text names the option, its value and what is allowed.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The values of options, for command lines of their own; each throws UsageError.
/// Parts between commas, none of them empty.
std::vector<std::string> split_list(const std::string& option, const std::string& text);
/// takes_suffix: K, M and G multiply by powers of 1024.
std::size_t parse_whole(const std::string& option, const std::string& text, std::size_t lowest,
                        std::size_t highest, bool takes_suffix = false);
/// K+M of --shapes.
std::pair<unsigned, unsigned> parse_shape(const std::string& text);

/// What a sub-command accepts where they differ.
struct Subcommand {
  std::string name;
  std::string contestants_option;  ///< "backend", "plugin"
  std::string contestants_default;
  std::string contestants_help;
  std::vector<std::string> ops;
};

struct Options {
  bool help = false;
  std::string help_text;
  std::vector<std::string> contestants;
  std::vector<std::string> ops;
  std::vector<gf::Technique> techniques;
  std::vector<std::pair<unsigned, unsigned>> shapes;  ///< (k, m)
  std::vector<std::size_t> sizes;                     ///< bytes of an object
  std::vector<unsigned> erasures;                     ///< empty: m
  std::vector<unsigned> threads;
  std::vector<bool> cold;
  std::size_t cold_bytes = 0;
  Pace pace;
  unsigned pieces = 1;
  std::string json_file;
};

/// Throws UsageError.
Options parse_options(const Subcommand& subcommand, const std::vector<std::string>& arguments);

/// Every combination of the options, in the order of the report. Throws UsageError for a shape that the
/// technique does not have or more erasures than m.
std::vector<Case> cases_of(const Options& options);

/// Bytes of the last-level cache as the system reports it; 0 if it does not.
std::size_t last_level_cache_bytes();

}  // namespace ec::bench
