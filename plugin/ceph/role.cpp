// Profiles as Ceph's isa and jerasure plugins read them. Their behaviour was found by running them
// (16.2.15, 18.2.7 and 20.2.4); tests/plugin/ceph/roles_test.cpp compares.
#include "plugin/ceph/role.hpp"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <numeric>

#include "plugin/ceph/portable.hpp"

namespace ec::ceph {
namespace {

using ::ceph::ErasureCodeProfile;
using gf::Technique;

/// The first release with rules of several OSDs in a failure domain.
constexpr int domain_counts_since = 19;
/// The release from which on isa bounds the coding chunks of cauchy.
constexpr int isa_bounds_m_since = 20;
/// The release from which on jerasure has a technique where the profile names none.
constexpr int jerasure_default_since = 20;
/// Chunks are a multiple of so many bytes with jerasure-per-chunk-alignment: 16 for each bit of a word.
constexpr unsigned per_chunk_granularity = 128;

/// A number as Ceph reads it: in front of the digits there may be spaces and a sign.
int number_of(ErasureCodeProfile& profile, const char* key, const char* fallback) {
  const std::string& text = value_of(profile, key, fallback);
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (errno != 0 || end != text.c_str() + text.size() || value < INT_MIN || value > INT_MAX)
    refuse(EINVAL, "{}={} must be a whole number", key, text);
  return static_cast<int>(value);
}

/// k and m, in a shape that the technique can code.
void take_shape(PoolProfile& parsed, int k, int m) {
  if (k < 2) refuse(EINVAL, "k={} must be at least 2", k);
  if (m < 1) refuse(EINVAL, "m={} must be at least 1", m);
  parsed.k = static_cast<unsigned>(k);
  parsed.m = static_cast<unsigned>(m);
  if (const auto error = gf::shape_error(parsed.technique, parsed.k, parsed.m); !error.empty())
    throw codec::SetupError(EINVAL, error);
}

void take_mapping(PoolProfile& parsed, const ErasureCodeProfile& profile) {
  const auto at = profile.find("mapping");
  if (at == profile.end() || at->second.empty()) return;
  const std::string& text = at->second;
  if (moves_chunks(text))
    refuse(EINVAL,
           "mapping={}: Ceph's own plugin of this name does not code by a mapping and writes over data; one "
           "that moves no chunk is served",
           text);
  parsed.mapping.resize(parsed.k + parsed.m);
  std::iota(parsed.mapping.begin(), parsed.mapping.end(), 0);
}

/// The keys that all of Ceph's plugins complete alike.
void take_rule(PoolProfile& parsed, ErasureCodeProfile& profile, int release) {
  parsed.crush_root = value_of(profile, "crush-root", "default");
  parsed.crush_failure_domain = value_of(profile, "crush-failure-domain", "host");
  parsed.crush_device_class = value_of(profile, "crush-device-class", "");
  if (release < domain_counts_since) return;
  parsed.crush_failure_domains = number_of(profile, "crush-num-failure-domains", "0");
  parsed.crush_osds_per_failure_domain = number_of(profile, "crush-osds-per-failure-domain", "0");
}

/// In the role of cuda: errors that a monitor would meet late, when the rule is made, or never.
void check_rule(const PoolProfile& parsed, int release) {
  const int domains = parsed.crush_failure_domains, osds = parsed.crush_osds_per_failure_domain;
  if (release < domain_counts_since && (domains != 0 || osds != 0))
    refuse(EINVAL,
           "crush-num-failure-domains={} crush-osds-per-failure-domain={}: Ceph makes such rules from {} on, "
           "and "
           "this host is of {}",
           domains, osds, domain_counts_since, release);
  if (const auto error = rule_error(parsed); !error.empty()) throw codec::SetupError(EINVAL, error);
}

void check_isa_shape(Technique technique, int k, int m, int release) {
  if (k < 0 || m < 0) return;  // take_shape reports it
  if (technique == Technique::cauchy && release < isa_bounds_m_since) return;
  if (const auto error = isa_shape_error(technique, static_cast<unsigned>(k), static_cast<unsigned>(m));
      !error.empty())
    throw codec::SetupError(EINVAL, error);
}

PoolProfile parse_as_isa(ErasureCodeProfile& profile, int release) {
  PoolProfile parsed;
  // An empty technique is refused, unlike an empty k.
  const std::string& technique = profile.try_emplace("technique", "reed_sol_van").first->second;
  if (technique != "reed_sol_van" && technique != "cauchy")
    refuse(ENOENT, "technique={} must be one of reed_sol_van, cauchy", technique);
  parsed.technique = technique == "cauchy" ? Technique::cauchy : Technique::reed_sol_van;
  const int k = number_of(profile, "k", "7"), m = number_of(profile, "m", "3");
  check_isa_shape(parsed.technique, k, m, release);
  take_shape(parsed, k, m);
  take_mapping(parsed, profile);
  take_rule(parsed, profile, release);
  return parsed;
}

PoolProfile parse_as_jerasure(ErasureCodeProfile& profile, int release) {
  PoolProfile parsed;
  if (release >= jerasure_default_since) value_of(profile, "technique", "reed_sol_van");
  const auto technique = profile.find("technique");
  const std::string name = technique == profile.end() ? "" : technique->second;
  if (name != "reed_sol_van" && name != "reed_sol_r6_op")
    refuse(ENOENT, "technique={} must be one of reed_sol_van, reed_sol_r6_op", name);
  const bool is_raid6 = name == "reed_sol_r6_op";
  parsed.technique = is_raid6 ? Technique::jerasure_reed_sol_r6_op : Technique::jerasure_reed_sol_van;
  const int k = number_of(profile, "k", "7"), m = number_of(profile, "m", is_raid6 ? "2" : "3");
  if (const int w = number_of(profile, "w", "8"); w != 8) refuse(EINVAL, "w={} must be 8", w);
  take_shape(parsed, k, m);
  if (!is_raid6) {
    const std::string& per_chunk = value_of(profile, "jerasure-per-chunk-alignment", "false");
    if (per_chunk == "true" || per_chunk == "yes") parsed.chunk_granularity = per_chunk_granularity;
  }
  if (const auto at = profile.find("mapping"); at != profile.end() && !at->second.empty())
    if (at->second.size() != parsed.k + parsed.m)
      refuse(EINVAL, "mapping={} must have {} positions", at->second, parsed.k + parsed.m);
  take_mapping(parsed, profile);
  parsed.allows_optimized_pools = !is_raid6;
  take_rule(parsed, profile, release);
  return parsed;
}

}  // namespace

Role role_of(std::string_view plugin_name) noexcept {
  return plugin_name == "isa" ? Role::isa : plugin_name == "jerasure" ? Role::jerasure : Role::own;
}

std::string rule_error(const PoolProfile& profile) {
  if (profile.crush_osds_per_failure_domain <= 1 || profile.crush_failure_domains >= 1) return {};
  return fmt::format("crush-osds-per-failure-domain={} needs crush-num-failure-domains of at least 1",
                     profile.crush_osds_per_failure_domain);
}

PoolProfile parse_profile(Role role, ErasureCodeProfile& profile, int release, bool of_a_pool) {
  if (role == Role::own) {
    PoolProfile parsed = parse_profile(profile, of_a_pool);
    if (!of_a_pool) check_rule(parsed, release);
    return parsed;
  }
  PoolProfile parsed =
      role == Role::isa ? parse_as_isa(profile, release) : parse_as_jerasure(profile, release);
  parsed.reads_lowest = true;
  return parsed;
}

bool is_ours(Role role, ErasureCodeProfile profile, int release) try {
  if (role == Role::jerasure) parse_as_jerasure(profile, release);
  return true;
} catch (const codec::SetupError&) {
  return false;
}

}  // namespace ec::ceph
