// Reads the keys of a profile: as our own, whose values must be ones that Ceph does not read otherwise; and
// as Ceph's isa and jerasure plugins read them. Their behaviour was found by running them (16.2.15, 18.2.7
// and 20.2.4); tests/plugin/ceph/roles_test.cpp compares.
#include "plugin/ceph/profile.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "plugin/ceph/portable.hpp"

namespace ec::ceph {
namespace {

using ::ceph::ErasureCodeProfile;
using gf::Technique;

constexpr auto our_keys = std::to_array<std::string_view>(
    {"k", "m", "technique", "backend", "mapping", "crush-root", "crush-failure-domain", "crush-device-class",
     "crush-num-failure-domains", "crush-osds-per-failure-domain"});
/// The first release with rules of several OSDs in a failure domain.
constexpr int domain_counts_since = 19;
/// The release from which on isa bounds the coding chunks of cauchy.
constexpr int isa_bounds_m_since = 20;
/// The release from which on jerasure has a technique where the profile names none.
constexpr int jerasure_default_since = 20;
/// Chunks are a multiple of so many bytes with jerasure-per-chunk-alignment: 16 for each bit of a word.
constexpr unsigned per_chunk_granularity = 128;

/// The value of `key`; an absent or empty one becomes the default, as in Ceph's own plugins.
const std::string& value_of(ErasureCodeProfile& profile, const char* key, const char* fallback) {
  std::string& value = profile[key];
  if (value.empty()) value = fallback;
  return value;
}

/// Empty where the key is absent.
std::string value_in(const ErasureCodeProfile& profile, const char* key) {
  const auto at = profile.find(key);
  return at == profile.end() ? "" : at->second;
}

void refuse_for(const std::string& error) {
  if (!error.empty()) throw codec::SetupError(EINVAL, error);
}

// --- Our own role.

bool is_hosts_key(std::string_view key) {
  return key == "plugin" || key == "directory" || key == "stripe_unit" || key.starts_with("ruleset-");
}

/// Whether the text is a number and nothing else, a sign included.
bool is_whole(const std::string& text, unsigned& number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && rest == end;
}

unsigned parse_count(ErasureCodeProfile& profile, const char* key, const char* fallback) {
  const std::string& text = value_of(profile, key, fallback);
  unsigned value = 0;
  if (!is_whole(text, value))
    refuse(EINVAL, "{}={} must be a whole number, at least {}, with k+m at most {}", key, text,
           std::string_view(key) == "k" ? 2 : 1, gf::max_chunks);
  return value;
}

void refuse_unknown_keys(const ErasureCodeProfile& profile, bool of_a_pool) {
  for (const auto& [key, value] : profile)
    if (!is_hosts_key(key) && !(of_a_pool && key.starts_with("crush-")) &&
        std::ranges::count(our_keys, key) == 0)
      refuse(EINVAL, "unknown key {}={}; plugin=cuda knows {}, and Ceph's own stripe_unit{}", key, value,
             fmt::join(our_keys, ", "), key == "w" ? "; w is 8 with every technique, and no key" : "");
}

/// "DD_D_" style: D for a shard that holds data, anything else for coding; chunks fill them in order.
std::vector<int> parse_mapping(const std::string& text, unsigned k, unsigned m) {
  if (text.empty()) return {};
  const auto data = static_cast<unsigned>(std::ranges::count(text, 'D'));
  if (text.size() != k + m || data != k)
    refuse(EINVAL, "mapping={} has {} positions, {} of them D; k={} and m={} need {} positions with {} D",
           text, text.size(), data, k, m, k + m, k);
  std::vector<int> mapping;
  for (const bool want_data : {true, false})
    for (std::size_t position = 0; position < text.size(); ++position)
      if ((text[position] == 'D') == want_data) mapping.push_back(static_cast<int>(position));
  return mapping;
}

/// The monitor reads a stripe_unit with signs, other suffixes and more, and keeps 32 bits of the value and of
/// k x stripe_unit: +4G becomes 0, and an OSD divides by 0. So only values that both read alike are taken.
void check_stripe_unit(const ErasureCodeProfile& profile, unsigned k) {
  const auto at = profile.find("stripe_unit");
  if (at == profile.end()) return;
  const std::string& text = at->second;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  constexpr std::array<std::string_view, 7> suffixes{"", "K", "M", "G", "T", "P", "E"};
  std::string_view suffix = std::string_view(text).substr(digits);
  if (suffix == "B") suffix = "";
  if (suffix.size() == 2 && suffix[1] == 'i') suffix.remove_suffix(1);
  const auto power = static_cast<unsigned>(std::ranges::find(suffixes, suffix) - suffixes.begin());
  std::uint64_t bytes = 0;
  const auto error = std::from_chars(text.data(), text.data() + digits, bytes).ec;
  if (digits == 0 || power == suffixes.size() || (error == std::errc{} && bytes == 0))
    refuse(EINVAL,
           "stripe_unit={} must be a whole number of bytes, at least 1; the "
           "suffixes K, M and G multiply by powers of 1024",
           text);
  if (error != std::errc{} || bytes > (UINT32_MAX / k) >> std::min(10 * power, 31u))
    refuse(EINVAL, "stripe_unit={} with k={}: k x stripe_unit must be less than 4 GiB", text, k);
}

int rule_count(const ErasureCodeProfile& profile, const char* key) {
  const std::string text = value_in(profile, key);
  unsigned count = 0;
  if (!text.empty() && (!is_whole(text, count) || count > gf::max_chunks))
    refuse(EINVAL, "{}={} must be a whole number up to {}", key, text, gf::max_chunks);
  return static_cast<int>(count);
}

/// The keys of the rule that every release has.
void take_places(PoolProfile& parsed, ErasureCodeProfile& profile) {
  parsed.crush_root = value_of(profile, "crush-root", "default");
  parsed.crush_failure_domain = value_of(profile, "crush-failure-domain", "host");
  parsed.crush_device_class = value_of(profile, "crush-device-class", "");
}

/// Errors that a monitor would meet late, when the rule is made, or never.
void check_rule(const PoolProfile& parsed, int release) {
  const int domains = parsed.crush_failure_domains, osds = parsed.crush_osds_per_failure_domain;
  if (release < domain_counts_since && (domains != 0 || osds != 0))
    refuse(EINVAL,
           "crush-num-failure-domains={} crush-osds-per-failure-domain={}: Ceph makes such rules from {} on, "
           "and this host is of {}",
           domains, osds, domain_counts_since, release);
  refuse_for(rule_error(parsed));
  // Ceph makes such a rule, by which every placement group lacks shards for good.
  const int shards = domains * std::max(osds, 1);
  if (domains != 0 && shards < static_cast<int>(parsed.k + parsed.m))
    refuse(EINVAL, "crush-num-failure-domains={}{}: the rule is of {} shards, and must be of at least k+m={}",
           domains, osds > 0 ? fmt::format(" crush-osds-per-failure-domain={}", osds) : "", shards,
           parsed.k + parsed.m);
}

PoolProfile parse_as_own(ErasureCodeProfile& profile, int release, bool of_a_pool) {
  refuse_unknown_keys(profile, of_a_pool);
  PoolProfile parsed;
  parsed.k = parse_count(profile, "k", "7");
  parsed.m = parse_count(profile, "m", "3");

  const std::string& technique = value_of(profile, "technique", "reed_sol_van");
  const auto known_technique = gf::parse_technique(technique);
  if (!known_technique)
    refuse(ENOENT, "technique={} must be one of {}", technique, fmt::join(gf::technique_names, ", "));
  parsed.technique = *known_technique;
  refuse_for(gf::shape_error(parsed.technique, parsed.k, parsed.m));

  const std::string& backend = value_of(profile, "backend", "auto");
  const auto known_backend = codec::parse_backend_choice(backend);
  if (!known_backend)
    refuse(ENOENT, "backend={} must be one of {}", backend, fmt::join(codec::backend_choices, ", "));
  parsed.backend = *known_backend;

  parsed.mapping = parse_mapping(value_in(profile, "mapping"), parsed.k, parsed.m);
  check_stripe_unit(profile, parsed.k);
  take_places(parsed, profile);
  if (of_a_pool) return parsed;
  parsed.crush_failure_domains = rule_count(profile, "crush-num-failure-domains");
  parsed.crush_osds_per_failure_domain = rule_count(profile, "crush-osds-per-failure-domain");
  check_rule(parsed, release);
  return parsed;
}

// --- The roles of Ceph's own plugins.

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
  refuse_for(gf::shape_error(parsed.technique, parsed.k, parsed.m));
}

void take_mapping(PoolProfile& parsed, const std::string& text) {
  if (text.empty()) return;
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
  take_places(parsed, profile);
  if (release < domain_counts_since) return;
  parsed.crush_failure_domains = number_of(profile, "crush-num-failure-domains", "0");
  parsed.crush_osds_per_failure_domain = number_of(profile, "crush-osds-per-failure-domain", "0");
}

PoolProfile parse_as_isa(ErasureCodeProfile& profile, int release) {
  PoolProfile parsed;
  // An empty technique is refused, unlike an empty k.
  const std::string& technique = profile.try_emplace("technique", "reed_sol_van").first->second;
  if (technique != "reed_sol_van" && technique != "cauchy")
    refuse(ENOENT, "technique={} must be one of reed_sol_van, cauchy", technique);
  parsed.technique = technique == "cauchy" ? Technique::cauchy : Technique::reed_sol_van;
  const int k = number_of(profile, "k", "7"), m = number_of(profile, "m", "3");
  const bool is_bounded = parsed.technique != Technique::cauchy || release >= isa_bounds_m_since;
  if (is_bounded && k >= 0 && m >= 0)  // else take_shape reports it
    refuse_for(isa_shape_error(parsed.technique, static_cast<unsigned>(k), static_cast<unsigned>(m)));
  take_shape(parsed, k, m);
  take_mapping(parsed, value_in(profile, "mapping"));
  take_rule(parsed, profile, release);
  return parsed;
}

PoolProfile parse_as_jerasure(ErasureCodeProfile& profile, int release) {
  PoolProfile parsed;
  if (release >= jerasure_default_since) value_of(profile, "technique", "reed_sol_van");
  const std::string name = value_in(profile, "technique");
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
  const std::string mapping = value_in(profile, "mapping");
  if (!mapping.empty() && mapping.size() != parsed.k + parsed.m)
    refuse(EINVAL, "mapping={} must have {} positions", mapping, parsed.k + parsed.m);
  take_mapping(parsed, mapping);
  parsed.allows_optimized_pools = !is_raid6;
  take_rule(parsed, profile, release);
  return parsed;
}

}  // namespace

Role role_of(std::string_view plugin_name) noexcept {
  return plugin_name == "isa" ? Role::isa : plugin_name == "jerasure" ? Role::jerasure : Role::own;
}

std::span<const std::string_view> known_profile_keys() noexcept { return our_keys; }

std::string rule_error(const PoolProfile& profile) {
  if (profile.crush_osds_per_failure_domain <= 1 || profile.crush_failure_domains >= 1) return {};
  return fmt::format("crush-osds-per-failure-domain={} needs crush-num-failure-domains of at least 1",
                     profile.crush_osds_per_failure_domain);
}

PoolProfile parse_profile(Role role, ErasureCodeProfile& profile, int release, bool of_a_pool) {
  if (role == Role::own) return parse_as_own(profile, release, of_a_pool);
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
