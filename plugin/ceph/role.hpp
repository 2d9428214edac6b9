// The role of the plugin. The name by which a host loads the plugin decides how a profile is read: as our
// own, or as one of Ceph's plugins would, so that pools of that plugin are served without a change.
//
// In the role isa or jerasure every profile that Ceph's plugin of that name takes is taken, with the same
// defaults written back, and coded to the same bytes in chunks of the same size; every profile that it
// refuses is refused. Unknown keys are kept and not looked at. There are two exceptions. A mapping that moves
// a chunk is refused as isa, and left to the stock plugin as jerasure: neither plugin codes by it, and both
// write coding chunks over data. Nor do our back ends code more than 255 chunks.
#pragma once

#include <string_view>

#include "plugin/ceph/profile.hpp"

namespace ec::ceph {

/// own: every name but isa and jerasure.
enum class Role : unsigned char { own, isa, jerasure };
Role role_of(std::string_view plugin_name) noexcept;

/// Parses `profile` in this role and writes every default back into it. As own it is parse_profile of
/// profile.hpp, and where there is no pool yet the rule is checked too. The other roles know these keys: isa:
/// technique, k, m, mapping, crush-root, crush-failure-domain, crush-device-class; jerasure: the same, w, and
/// with reed_sol_van jerasure-per-chunk-alignment; both on a host of `release` 19 or later:
/// crush-num-failure-domains, crush-osds-per-failure-domain. Throws codec::SetupError: ENOENT for an unknown
/// technique, EINVAL for all other errors; as jerasure also for a profile that is not ours to code.
PoolProfile parse_profile(Role role, ::ceph::ErasureCodeProfile& profile, int release,
                          bool of_a_pool = false);

/// Why no rule can be made of the profile, or empty.
std::string rule_error(const PoolProfile& profile);

/// Whether a pool of this profile is ours to code, or to refuse. In the role jerasure all profiles but
/// reed_sol_van and reed_sol_r6_op with w=8 are left to the stock plugin, wrong ones included.
bool is_ours(Role role, ::ceph::ErasureCodeProfile profile, int release);

}  // namespace ec::ceph
