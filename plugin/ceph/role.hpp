// Whose part the plugin plays. The name that a host loads it by says how it reads a profile: as our own, or
// as one of Ceph's plugins would, so that pools of that plugin are served without a change.
//
// As isa or jerasure what Ceph's plugin of that name takes is taken, with the same defaults written back, and
// coded to the same bytes in chunks of the same size; what it refuses is refused. Keys that it does not know
// are kept and not looked at. Two things are not so. A mapping that moves a chunk is refused as isa, and the
// stock plugin's as jerasure: neither plugin codes by it, and both write coding chunks over data. Nor do our
// back ends code more than 255 chunks.
#pragma once

#include <string_view>

#include "plugin/ceph/profile.hpp"

namespace ec::ceph {

/// own: every name but those of the two others.
enum class Role : unsigned char { own, isa, jerasure };
Role role_of(std::string_view plugin_name) noexcept;

/// Parses `profile` in that role and writes every default back into it; as own it is parse_profile of
/// profile.hpp, and where there is no pool yet its rule is looked at, too. Others know these keys: isa:
/// technique, k, m, mapping, crush-root, crush-failure-domain, crush-device-class; jerasure: the same, w, and
/// with reed_sol_van jerasure-per-chunk-alignment; both on a host of `release` 19 or later:
/// crush-num-failure-domains, crush-osds-per-failure-domain. Throws codec::SetupError: ENOENT for an unknown
/// technique, EINVAL for all else; as jerasure also for what is not ours to code.
PoolProfile parse_profile(Role role, ::ceph::ErasureCodeProfile& profile, int release,
                          bool of_a_pool = false);

/// Why no rule can be made of the profile, or empty.
std::string rule_error(const PoolProfile& profile);

/// Whether a pool of this profile is ours to code, or to refuse. All but reed_sol_van and reed_sol_r6_op with
/// w=8 is left to the stock plugin in the role jerasure, what is wrong in any way included.
bool is_ours(Role role, ::ceph::ErasureCodeProfile profile, int release);

}  // namespace ec::ceph
