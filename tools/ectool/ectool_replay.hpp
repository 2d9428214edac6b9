// ectool replay: a mismatch once more, with everything that this machine can code with.
#pragma once

#include <functional>
#include <string>

#include "plugin/codec/checking/reproducer.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::tools {

/// Runs the block, and the whole call around it with other bytes in place of those that were not kept, with
/// every back end and variant; brings the device up for its own. Says a line for each, by itself first what
/// was recorded. Whether all results that could be had are right.
bool replay(const codec::Reproducer& reproducer, const codec::NodeSettings& node,
            const std::function<void(const std::string&)>& say);

}  // namespace ec::tools
