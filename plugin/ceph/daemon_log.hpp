// Sentences for the operator of the host: most of Ceph's daemons drop the text that an entry point gives with
// its failure.
#pragma once

#include <string>

namespace ec::ceph {

/// Writes the line, without its end, to stderr, and to the host's log if the log is a file of a daemon of
/// Ceph's. The same line is written once in the life of a process. Thread safe; does nothing where memory is
/// short.
void tell(const std::string& line) noexcept;

/// Whether a log of Ceph's daemons has a name of this form: "ceph-osd.3.log", "mon.a.log". Files of a
/// database have none.
bool is_daemon_log(const std::string& path) noexcept;

}  // namespace ec::ceph
