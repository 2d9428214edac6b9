// The stats of processes that run now, read from the memory they share (plugin/codec/stats/stats_page.hpp).
//
// A process is a JSON object with all that one copy of the plugin or the library in it has counted; the other
// forms are made of that. Whose process it is comes first (process.hpp). Whoever made the page may have put
// anything there: texts are printable, names of back ends differ, and numbers are no more than numbers.
#pragma once

#include <fmt/format.h>
#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plugin/codec/stats/stats_page.hpp"
#include "tools/ectool/process.hpp"

namespace ec::tools {

using Json = nlohmann::ordered_json;

/// The stats of a page, less what the page does not know. Throws std::runtime_error for one that nobody of
/// ours made.
Json stats_from(const codec::StatsPage& page);

struct StatsOfHost {
  /// An entry for each copy of the plugin or the library in a process.
  Json processes = Json::array();
  /// A sentence for each thing that was there and could not be read.
  std::vector<std::string> left_out;
};

/// What process `pid` counts: at least one entry. Throws std::runtime_error that names the process and says
/// why there is nothing to read.
StatsOfHost stats_of(pid_t pid, const Deadline& deadline);

/// Of all processes of these users that this one may look into.
StatsOfHost all_stats(Users::Whom whom, const Deadline& deadline);

/// A line for each process, for people.
std::string list_of(const StatsOfHost& host);
/// Prometheus' text format, version 0.0.4, as node_exporter's textfile collector reads it, of at most
/// most_prometheus_bytes: the last processes are left out where all are longer. Rows of operations that never
/// ran are left out, but for the device's rows: an alert on their increase needs the zero.
std::string prometheus_of(StatsOfHost& host);
inline constexpr std::size_t most_prometheus_bytes = std::size_t{4} << 20;

}  // namespace ec::tools

/// Texts as they are, all else as JSON.
template <>
struct fmt::formatter<ec::tools::Json> : fmt::formatter<std::string> {
  auto format(const ec::tools::Json& value, fmt::format_context& context) const {
    return formatter<std::string>::format(value.is_string() ? value.get<std::string>() : value.dump(),
                                          context);
  }
};
