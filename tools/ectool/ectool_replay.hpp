// ectool replay: a mismatch once more, with everything that this machine can code with.
#pragma once

#include <functional>
#include <string>

#include "plugin/codec/checking/reproducer.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::tools {

/// Runs the call, with other bytes in place of those that were not kept, by every back end and variant; only
/// the block where whole chunks would be too long. Brings the device up for its own. Says a line for each,
/// and before them what was recorded. Whether all results that could be had are right. Throws std::bad_alloc.
bool replay(const codec::Reproducer& reproducer, const codec::NodeSettings& node,
            const std::function<void(const std::string&)>& say);

}  // namespace ec::tools
