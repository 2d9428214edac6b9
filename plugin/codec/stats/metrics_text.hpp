// The counters in the words of Prometheus.
#pragma once

#include <string>
#include <string_view>

#include "plugin/codec/stats/stats_page.hpp"

namespace ec::codec {

/// The text format, version 0.0.4, as node_exporter's textfile collector reads it. `process` becomes a label
/// of every line, because files of several processes lie side by side and no two may have the same series.
/// Rows of operations that never ran are left out, but for fall-backs of the device: an alert on their
/// increase needs the zero.
std::string metrics_text(const StatsPage& page, std::string_view process);

}  // namespace ec::codec
