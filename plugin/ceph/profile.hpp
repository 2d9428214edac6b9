// The profile of a pool: parsed, checked, and completed with its defaults, by the role of the plugin. The
// name by which a host loads the plugin decides how a profile is read: as our own, or as one of Ceph's
// plugins would, so that pools of that plugin are served without a change.
//
// In the role isa or jerasure every profile that Ceph's plugin of that name takes is taken, with the same
// defaults written back, and coded to the same bytes in chunks of the same size; every profile that it
// refuses is refused. Unknown keys are kept and not looked at. There are two exceptions. A mapping that moves
// a chunk is refused as isa, and left to the stock plugin as jerasure: neither plugin codes by it, and both
// write coding chunks over data. Nor do our back ends code more than 255 chunks.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ceph/classic.h"
#include "gf/generator.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::ceph {

/// own: every name but isa and jerasure.
enum class Role : unsigned char { own, isa, jerasure };
Role role_of(std::string_view plugin_name) noexcept;

/// A profile's content. `mapping[i]` is the shard that holds chunk i (data chunks first); empty for i == i.
struct PoolProfile {
  unsigned k = 7;
  unsigned m = 3;
  gf::Technique technique = gf::Technique::reed_sol_van;
  codec::BackendChoice backend = codec::BackendChoice::automatic;
  std::vector<int> mapping;
  std::string crush_root;
  std::string crush_failure_domain;
  std::string crush_device_class;
  /// Keys of the rule, from Ceph 19 on: the number of failure domains, and of shards in each. 0: as many
  /// domains as shards, one shard in each.
  int crush_failure_domains = 0;
  int crush_osds_per_failure_domain = 0;
  // Values of Ceph's own plugins, for a role that stands in for one of them.
  unsigned chunk_granularity = 32;  ///< a power of 2 that divides a chunk's length; decides the bytes on disk
  bool reads_lowest = false;        ///< where a wanted shard is lost, the first k present ones are read
  bool allows_optimized_pools = true;  ///< for Ceph 20
};

/// The keys that are ours to read in our own role.
std::span<const std::string_view> known_profile_keys() noexcept;

/// Parses `profile` and writes every default back into it. As own it knows known_profile_keys(); further keys
/// of Ceph's own (plugin, directory, stripe_unit, and keys that start with ruleset-) are left alone.
/// of_a_pool: the profile has a pool, and the caller serves it: then keys that only make its rule are not
/// read as own, and keys that start with crush- may have any value, as in versions of this plugin up to 0.2.
/// The other roles know these keys: isa: technique, k, m, mapping, crush-root, crush-failure-domain,
/// crush-device-class; jerasure: the same, w, and with reed_sol_van jerasure-per-chunk-alignment; both on a
/// host of `release` 19 or later: crush-num-failure-domains, crush-osds-per-failure-domain.
///
/// Throws codec::SetupError, whose text names key, value and the allowed ones: EINVAL for an unknown key, a
/// value that is no number, a shape that cannot be coded, a mapping that does not fit, a stripe_unit whose
/// stripe does not fit 32 bits, or a rule that this release cannot make; ENOENT for an unknown technique or
/// back end; as jerasure also for a profile that is not ours to code.
PoolProfile parse_profile(Role role, ::ceph::ErasureCodeProfile& profile, int release,
                          bool of_a_pool = false);

/// Why no rule can be made of the profile, or empty.
std::string rule_error(const PoolProfile& profile);

/// Whether a pool of this profile is ours to code, or to refuse. In the role jerasure all profiles but
/// reed_sol_van and reed_sol_r6_op with w=8 are left to the stock plugin, wrong ones included.
bool is_ours(Role role, ::ceph::ErasureCodeProfile profile, int release);

/// Throws codec::SetupError(code) with the sentence.
template <class... Values>
[[noreturn]] void refuse(int code, fmt::format_string<Values...> sentence, Values&&... values) {
  throw codec::SetupError(code, fmt::format(sentence, std::forward<Values>(values)...));
}

}  // namespace ec::ceph
