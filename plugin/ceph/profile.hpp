// The profile of a pool: parsed, checked, and completed with its defaults.
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
  /// Further values of Ceph's own plugins, for a role that stands in for one of them (role.hpp).
  unsigned chunk_granularity = 32;  ///< a power of 2 that divides a chunk's length; decides the bytes on disk
  bool reads_lowest = false;        ///< where a wanted shard is lost, the first k present ones are read
  bool allows_optimized_pools = true;  ///< for Ceph 20
};

/// The keys that are ours to read.
std::span<const std::string_view> known_profile_keys() noexcept;

/// Parses `profile` and writes every default back into it. Keys: known_profile_keys(); further keys of Ceph's
/// own (plugin, directory, stripe_unit, and keys that start with ruleset-) are left alone. of_a_pool: the
/// profile has a pool, and the caller serves it: keys that only make its rule are not read then, and keys
/// that start with crush- may have any value, as in versions of this plugin up to 0.2. Throws
/// codec::SetupError: EINVAL for an unknown key, a value that is no number, a shape that cannot be coded, a
/// mapping that does not fit, or a stripe_unit whose stripe does not fit 32 bits; ENOENT for an unknown
/// technique or back end. The text names key, value and the allowed ones.
PoolProfile parse_profile(::ceph::ErasureCodeProfile& profile, bool of_a_pool = false);

/// Throws codec::SetupError(code) with the sentence.
template <class... Values>
[[noreturn]] void refuse(int code, fmt::format_string<Values...> sentence, Values&&... values) {
  throw codec::SetupError(code, fmt::format(sentence, std::forward<Values>(values)...));
}

/// The value of `key`; an absent or empty one becomes the default, as in Ceph's own plugins.
inline const std::string& value_of(::ceph::ErasureCodeProfile& profile, const char* key,
                                   const char* fallback) {
  std::string& value = profile[key];
  if (value.empty()) value = fallback;
  return value;
}

}  // namespace ec::ceph
