// Sentences for who runs the host: its stream of an entry point's failure is dropped by most of Ceph's
// daemons.
#pragma once

#include <string>

namespace ec::ceph {

/// Writes the line, without its end, to stderr, and to the host's log if that is a file of a daemon of
/// Ceph's. The same line is written once in the life of a process. Thread safe; does nothing where memory is
/// short.
void tell(const std::string& line) noexcept;

/// Whether a log of Ceph's daemons has a name of this form: "ceph-osd.3.log", "mon.a.log". No file of a
/// database has.
bool is_daemon_log(const std::string& path) noexcept;

}  // namespace ec::ceph
