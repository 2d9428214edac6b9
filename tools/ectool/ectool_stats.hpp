// The counters of processes that run now, read from the memory they share
// (plugin/codec/stats/stats_region.hpp).
#pragma once

#include <sys/types.h>
#include <string>
#include <vector>

#include "plugin/codec/stats/stats_page.hpp"

namespace ec::tools {

struct ProcessStats {
  pid_t pid = 0;
  std::string program;  ///< as the kernel calls it
  codec::StatsPage page;
};

/// What process `pid` counts; one entry for each copy of the plugin or the library in it, at least one.
/// Throws std::runtime_error that names the process and says why there is nothing to read.
std::vector<ProcessStats> stats_of(pid_t pid);

/// Of all processes that this user may look into and whose counters this program can read.
std::vector<ProcessStats> all_stats();

/// A line for each process.
std::string list_of(const std::vector<ProcessStats>& processes);
/// Everything about one process, for people.
std::string table_of(const ProcessStats& process);
/// {"processes": [...]}, everything about each.
std::string json_of(const std::vector<ProcessStats>& processes);

}  // namespace ec::tools
