// ectool doctor: what is wrong on this host and is in no log, in plain words, and what to do. It is the one
// place that decides what is to be said of daemons, for `ec_adopt --check` too.
//
// Each daemon of Ceph that runs on this host, in containers too, is judged by its own files, as it sees them
// (/proc/PID/root), and by what it answers at its admin socket. No program is run and nothing is written.
// Only daemons of users that are asked for are looked at (process.hpp).
#pragma once

#include <string>
#include <vector>

#include "tools/ectool/ectool_stats.hpp"
#include "tools/ectool/process.hpp"

namespace ec::tools {

inline constexpr const char* adopted_directory = "/var/lib/ec_cuda/erasure-code";  ///< that ec_adopt makes

/// {"check", "severity", "text", "do"}. severity: "note" (nothing to do), "warning" (something is to be done)
/// or "error" (bytes may be wrong, or a daemon does not start).
Json finding(const char* check, const char* severity, std::string text, std::string advice);

struct Daemons {
  /// The directory that ec_adopt makes on this host: {"path", "stands_in_for": the names (isa, jerasure) that
  /// lead to our plugin, "findings"}.
  Json directory;
  Json found = Json::array();         ///< ceph-osd and ceph-mon: described in ectool --help
  std::vector<std::string> left_out;  ///< a sentence for each daemon that could not be looked at
};
/// adopted: the path of the directory that ec_adopt makes. stats: of the processes of this host.
Daemons look_at_daemons(Users::Whom whom, const std::string& adopted, const Json& stats,
                        const Deadline& deadline);

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
