// The stats of processes that run now, read from the memory they share (plugin/codec/stats/stats_page.hpp).
//
// A process is a JSON object with all that one copy of the plugin or the library in it has counted; the other
// forms are made of that. Whoever made the process or the page may have put anything there: texts are
// printable, names of back ends differ, and numbers are no more than numbers.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>

#include "plugin/codec/stats/stats_page.hpp"

namespace ec::tools {

using Json = nlohmann::ordered_json;

/// The stats of a page, less what the page does not know. Throws std::runtime_error for one that nobody of
/// ours made.
Json stats_from(const codec::StatsPage& page);

/// A list of what process `pid` counts; one entry for each copy of the plugin or the library in it, at least
/// one. Throws std::runtime_error that names the process and says why there is nothing to read.
Json stats_of(pid_t pid);

/// Of all processes that this user may look into and whose stats this program can read.
Json all_stats();

/// A line for each process, for people.
std::string list_of(const Json& processes);
/// Prometheus' text format, version 0.0.4, as node_exporter's textfile collector reads it. Rows of operations
/// that never ran are left out, but for those of the device: an alert on their increase needs the zero.
std::string prometheus_of(const Json& processes);

}  // namespace ec::tools
