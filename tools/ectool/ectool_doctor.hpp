// ectool doctor: what is wrong on this host, in plain words, and what to do.
//
// A check looks at what was gathered and says one thing or more. It opens no device and changes nothing. All
// texts of processes are printable (ectool_stats.hpp); what is read from /proc is no more than that.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "plugin/codec/routing/machine.hpp"
#include "tools/ectool/ectool_stats.hpp"

namespace ec::tools {

/// note: nothing to do, but good to know. warning: calls are slower than they could be, or will be. error:
/// data may be wrong, or a daemon does not start.
enum class Severity { ok, note, warning, error };

/// What a user finds that asks for the GPUs.
struct Probe {
  std::string user;
  std::string failure;            ///< why there is none; empty if there is one
  int cuda = 0;                   ///< the driver's, as 13000
  std::vector<std::string> gpus;  ///< their names
  std::string no_compiler;        ///< why kernels cannot be generated; empty if they can
};

/// In a process of its own, which is killed after 20 seconds and is no client of MPS: a server for another
/// user's processes would have this one wait for the end of those. user: a name; empty: this user.
Probe probe_gpus(const std::string& user);

struct Host {
  std::filesystem::path root = "/";     ///< all files are taken from there
  Json processes = Json::array();       ///< as all_stats()
  std::vector<std::string> unreadable;  ///< a sentence for each process of ours without stats
  std::string ceph;                     ///< what ceph-osd says of its version; empty if there is none
  codec::Machine machine;
  Probe self;    ///< this user's
  Probe daemon;  ///< that of the user of the daemons
};

/// This one.
Host look_at_host();

struct Finding {
  Severity severity = Severity::ok;
  std::string text;
};
struct Check {
  const char* name;
  std::vector<Finding> (*look)(const Host&);
  const char* advice;  ///< what to do about a finding that is not ok
};
std::span<const Check> doctor_checks();

/// Findings of all checks, for people or as JSON, and the worst of their severities.
struct Diagnosis {
  Json json;
  std::string text;
  Severity worst = Severity::ok;
};
Diagnosis diagnose(const Host& host);

}  // namespace ec::tools
