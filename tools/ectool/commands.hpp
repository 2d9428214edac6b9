// What ectool does, but for its stats (ectool_stats.hpp).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plugin/codec/routing/calibration.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::tools {

using Say = std::function<void(const std::string& line)>;

// --- calibrate

/// Samples that were measured, of how many.
using Progress = std::function<void(unsigned measured, unsigned samples)>;

/// Takes a few seconds. say: gets a line on each step. progress: called after each sample. Every result is
/// compared with another back end's before it is timed. Throws std::runtime_error if one differs, if the
/// device fails while it is measured, or if calls take no longer with more bytes.
codec::Calibration measure_costs(const codec::NodeSettings& node, const Say& say, const Progress& progress);

/// The table for people, a line a row.
std::string describe(const codec::CostTable& costs);

// --- explain

/// The pairs name=value that explain takes, for --help.
extern const char* const explain_help;

/// What this machine, with these settings, would do with the call that `pairs` describe, in a few lines. Asks
/// the router itself; brings the device up to see whether there is one, and codes nothing. Throws
/// SetupError(EINVAL) for a pair that is unknown, missing, repeated or out of range.
std::string explain(const std::vector<std::string>& pairs, const codec::NodeSettings& node);

}  // namespace ec::tools
