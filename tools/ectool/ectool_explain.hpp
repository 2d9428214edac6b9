// ectool explain: what would run, and why.
#pragma once

#include <string>
#include <vector>

#include "plugin/codec/settings/settings.hpp"

namespace ec::tools {

/// The pairs name=value that explain takes, for --help.
extern const char* const explain_help;

/// What this machine, with these settings, would do with the call that `pairs` describe, in a few lines. Asks
/// the router itself; brings the device up to see whether there is one, and codes nothing. Throws
/// SetupError(EINVAL) for a pair that is unknown, missing, repeated or out of range.
std::string explain(const std::vector<std::string>& pairs, const codec::NodeSettings& node);

}  // namespace ec::tools
