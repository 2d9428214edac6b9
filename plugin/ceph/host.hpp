// What the daemon that loaded us offers, looked up by name: its version, and its CRUSH rules.
#pragma once

#include <iosfwd>
#include <string>

#include "plugin/ceph/profile.hpp"

class CrushWrapper;

namespace ec::ceph {

/// The host's version string ("16.2.15"), or null if it exports none.
const char* host_version() noexcept;

/// Whether a host of this version calls the classic interface: releases 16 to 19, and nothing that cannot be
/// read.
bool speaks_classic(const char* version) noexcept;

/// Adds the erasure rule `name` to `crush` for the root, failure domain and device class of the profile.
/// Returns its id or -errno, with the reason in *why (may be null); -ENOTSUP if the host exports no function
/// that adds one.
int add_crush_rule(const std::string& name, CrushWrapper& crush, const PoolProfile& profile,
                   std::ostream* why);

}  // namespace ec::ceph
