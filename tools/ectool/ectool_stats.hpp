// The counters of processes that run now, read from the memory they share
// (plugin/codec/stats/stats_region.hpp).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/codec/stats/stats_page.hpp"

namespace ec::tools {

/// What one copy of the plugin or the library in a process has counted. Whoever made the process or the page
/// may have put anything there: texts are printable, names of back ends differ, and numbers are no more than
/// numbers.
struct ProcessStats {
  struct Row {
    std::string backend;
    codec::Operation operation;
    codec::Row counts;
    bool used() const;
  };
  struct Checked {
    std::string backend;
    codec::Checks counts;
  };
  pid_t pid = 0;
  unsigned copy = 0;    ///< 0, 1, .. in one process
  std::string program;  ///< as the kernel calls it
  std::string name;     ///< of a Ceph daemon, as osd.3; else the program
  std::string version;
  std::uint64_t since = 0;  ///< seconds since 1970, not after the year 9999
  std::vector<Row> rows;    ///< of all back ends of that build
  std::vector<Checked> checks;
  std::uint64_t plans_found = 0, plans_solved = 0;
  std::uint64_t jobs_on_device = 0, given_up_bytes = 0;
  kernels::DeviceTallies device;
  ec_cuda_pinned_stats arena{};
};

/// The stats of a page, less what the page does not know. Throws std::runtime_error for one that nobody of
/// ours made.
ProcessStats stats_from(const codec::StatsPage& page);

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
/// Prometheus' text format, version 0.0.4, as node_exporter's textfile collector reads it. Rows of operations
/// that never ran are left out, but for fall-backs of the device: an alert on their increase needs the zero.
std::string prometheus_of(const std::vector<ProcessStats>& processes);

}  // namespace ec::tools
