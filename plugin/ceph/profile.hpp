// The profile of a pool: parsed, checked, and completed with its defaults.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ceph/classic.h"
#include "gf/generator.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::ceph {

/// What a profile says. `mapping[i]` is the shard that holds chunk i (data chunks first); empty for i == i.
struct PoolProfile {
  unsigned k = 7;
  unsigned m = 3;
  gf::Technique technique = gf::Technique::reed_sol_van;
  codec::BackendChoice backend = codec::BackendChoice::automatic;
  std::vector<int> mapping;
  std::string crush_root;
  std::string crush_failure_domain;
  std::string crush_device_class;
  /// Of the rule, from Ceph 19 on: in how many failure domains shards lie, and how many in each. 0: as many
  /// as there are shards, one in each.
  int crush_failure_domains = 0;
  int crush_osds_per_failure_domain = 0;
  /// What Ceph's own plugins have besides, for who stands in for one of them (role.hpp).
  unsigned chunk_granularity =
      32;                     ///< a chunk's length is a multiple of it, a power of 2; decides what is on disk
  bool reads_lowest = false;  ///< where a wanted shard is lost, the first k that are there are read
  bool allows_optimized_pools = true;  ///< of Ceph 20
};

/// The keys that are ours to read.
std::span<const std::string_view> known_profile_keys() noexcept;

/// Parses `profile` and writes every default back into it. Keys: those above; further keys of Ceph's own
/// (plugin, directory, stripe_unit, and those that start with ruleset-) are left to it. of_a_pool: there is a
/// pool of the profile, and the caller serves it: what only makes its rule is not read then, and keys that
/// start with crush- may be any, as versions of this plugin up to 0.2 took them. Throws codec::SetupError:
/// EINVAL for an unknown key, a number that is none, a shape that cannot be coded, a mapping that does not
/// fit, or a stripe_unit whose stripe does not fit 32 bits; ENOENT for an unknown technique or back end. The
/// text names key, value and what is allowed.
PoolProfile parse_profile(::ceph::ErasureCodeProfile& profile, bool of_a_pool = false);

}  // namespace ec::ceph
