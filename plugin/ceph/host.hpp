// The offer of the daemon that loaded us, by weak references: its version, its CRUSH rules, and its log.
#pragma once

#include <fmt/core.h>

#include <iosfwd>
#include <string>
#include <string_view>

#include "ceph/classic.h"
#include "plugin/ceph/profile.hpp"

class CrushWrapper;

namespace ec::ceph {

/// Whether a weak function is there.
bool exists(auto function) noexcept { return function != nullptr; }

/// The host's version string ("16.2.15"), or null if it exports none.
const char* host_version() noexcept;
/// The first number of a version; 0 for an unreadable one.
int release_of(const char* version) noexcept;

/// The last release that we know.
constexpr int tentacle_release = 20;

/// Which of Ceph's interfaces a host calls.
enum class Dialect : unsigned char { none, classic, tentacle };
constexpr std::string_view name(Dialect d) {
  constexpr std::string_view names[] = {"none", "classic", "tentacle"};
  return names[static_cast<std::size_t>(d)];
}

/// The dialect of a host's version: classic for releases 16 to 19, tentacle for 20, none for all others, for
/// unreadable versions, and for builds from the development of the next release (20.3.0 is one of 21).
Dialect dialect_of(const char* version) noexcept;

/// The dialect of this process's host. None also for a host without the buffers that we know, and for one of
/// 20 whose symbols name other types of sets and maps than tentacle.h. *why, if there is a problem, names it.
Dialect host_dialect(std::string* why) noexcept;

/// Whether the host is an OSD, by the name of its program. An OSD serves existing pools.
bool is_osd() noexcept;
/// Whether the host is a monitor, by the name of its program. A monitor makes pools; tools make none.
bool is_monitor() noexcept;

/// Whether no symbol of a program contradicts the types of tentacle.h. names: all its symbols, in the form of
/// the dynamic linker.
bool names_our_types(std::string_view names) noexcept;

/// A sentence for the operator: most of Ceph's daemons drop the text that an entry point gives with its
/// failure. Writes the line, without its end, to stderr, and to the host's log if the log is a file of a
/// daemon of Ceph's. The same line is written once in the life of a process. Thread safe; does nothing where
/// memory is short.
void vtell(fmt::string_view format, fmt::format_args values) noexcept;
template <class... Values>
void tell(fmt::format_string<Values...> format, Values&&... values) noexcept {
  vtell(format, fmt::make_format_args(values...));
}

/// Whether a log of Ceph's daemons has a name of this form: "ceph-osd.3.log", "mon.a.log". Files of a
/// database have none.
bool is_daemon_log(const std::string& path) noexcept;

/// Ceph's own isa of a host of Ceph 16, for add_crush_rule(): a rule of that release says how many shards it
/// takes, at most 20 unless code that is compiled with Ceph's own headers says more. It must live as long as
/// the process.
void set_rule_maker(::ceph::ErasureCodePlugin& isa) noexcept;

/// Adds the erasure rule `name` to `crush` for the root, failure domain, device class and counts of the
/// profile, as Ceph's own plugins do. Returns its id or -errno, with the reason in *why (may be null);
/// -ENOTSUP if the host exports no function that adds such a rule; -EINVAL for OSDs in each of no number of
/// failure domains.
int add_crush_rule(const std::string& name, CrushWrapper& crush, const PoolProfile& profile,
                   std::ostream* why);

}  // namespace ec::ceph
