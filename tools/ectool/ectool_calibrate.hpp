// ectool calibrate: measures what coding costs on this machine.
#pragma once

#include <functional>
#include <string>

#include "plugin/codec/routing/calibration.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::tools {

/// Takes a few seconds. say: gets a line on each step. Every result is compared with another back end's
/// before it is timed. Throws std::runtime_error if one differs, or if the device fails while it is measured.
codec::Calibration measure_costs(const codec::NodeSettings& node,
                                 const std::function<void(const std::string&)>& say);

/// The table for people, a line a row.
std::string describe(const codec::CostTable& costs);

}  // namespace ec::tools
