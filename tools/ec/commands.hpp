// The commands of ec, each in a file of its name.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ec/codec.hpp"
#include "tools/ec/failure.hpp"
#include "tools/ec/pipeline.hpp"
#include "tools/ec/set.hpp"

namespace ec::file {

struct Options {
  std::vector<std::string> paths;
  std::optional<unsigned> k, m;
  std::optional<double> redundancy;  ///< create --keep: coding blocks for each data block
  Technique technique = Technique::cauchy;
  std::string output;  ///< a directory; extract: or "-"; empty: the usual one
  std::string name;    ///< empty: the usual one
  std::string uuid;
  std::optional<std::uint64_t> skip;  ///< identify
  unsigned threads = 0;
  bool may_replace = false;
  bool keeps_files = false;
  bool is_recursive = false;
  bool loses_bad_sectors = false;
  bool is_quiet = false;
  bool is_json = false;
};

struct Outcome {
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  Status status = Status::ok;
  /// Null unless it is asked for: nlohmann::json does not survive where there is no memory.
  nlohmann::json report;
  std::string text;
  std::vector<std::string> notes;  ///< for stderr
};

// All throw Failure; then nothing that was there has changed, and nothing new is there, but for what went to
// standard output.

Outcome create(const Options& options);
Outcome info(const Options& options);
Outcome verify(const Options& options);
Outcome repair(const Options& options);
Outcome extract(const Options& options);
Outcome identify(const Options& options);

/// Reads all blocks of all files of the set, so that they are counted. Returns the stripes that have more
/// than m lost blocks.
std::uint64_t count_damage(ShardSet& set, const Options& options);

/// Begins the report and the text with what is known of the set.
void describe(const ShardSet& set, const Options& options, Outcome* outcome);

/// The sentence on a set of which so many stripes, or columns, are lost.
std::string text_of_lost(const SetHeader& set, std::uint64_t stripes);

/// Notes that a new file has a name that ls does not show; it is the set that chose the name.
void say_if_hidden(const std::string& name, Outcome* outcome);

/// Adds how many bytes were done with since the outcome's begin.
void add_rate(std::uint64_t bytes, Outcome* outcome);

}  // namespace ec::file
