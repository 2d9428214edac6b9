// ectool doctor: what is wrong on this host and is in no log, in plain words, and what to do.
#pragma once

#include <string>

#include "tools/ectool/daemons.hpp"

namespace ec::tools {

/// For --help: its answer and its exit status.
extern const char* const doctor_help;

/// Whether Ceph's own plugins could take over a pool of plugin=cuda with these keys, "k=4 m=2", in a line.
/// Throws SetupError(EINVAL) for what is no profile.
std::string answer_on_profile(const std::string& text, bool* is_portable);

/// {"severity": the worst, "directory", "daemons", "findings", "daemons_left_out", "left_out"}: see ectool
/// --help.
Json diagnose(const Daemons& daemons, const StatsOfHost& stats);
/// The same for people.
std::string text_of(const Json& diagnosis);

}  // namespace ec::tools
