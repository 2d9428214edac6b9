// Reads the keys of a profile, and refuses values that Ceph would read otherwise.
#include "plugin/ceph/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>

namespace ec::ceph {
namespace {

using ::ceph::ErasureCodeProfile;
using codec::SetupError;

constexpr std::array<std::string_view, 10> our_keys{"k",
                                                    "m",
                                                    "technique",
                                                    "backend",
                                                    "mapping",
                                                    "crush-root",
                                                    "crush-failure-domain",
                                                    "crush-device-class",
                                                    "crush-num-failure-domains",
                                                    "crush-osds-per-failure-domain"};

bool is_hosts_key(std::string_view key) {
  return key == "plugin" || key == "directory" || key == "stripe_unit" || key.starts_with("ruleset-");
}

unsigned parse_count(ErasureCodeProfile& profile, const char* key, const char* fallback) {
  const std::string& text = value_of(profile, key, fallback);
  unsigned value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || rest != end)
    refuse(EINVAL, "{}={} must be a whole number, at least {}, with k+m at most {}", key, text,
           std::string_view(key) == "k" ? 2 : 1, gf::max_chunks);
  return value;
}

void refuse_unknown_keys(const ErasureCodeProfile& profile, bool of_a_pool) {
  for (const auto& [key, value] : profile)
    if (!is_hosts_key(key) && !(of_a_pool && key.starts_with("crush-")) &&
        std::ranges::find(our_keys, key) == our_keys.end())
      refuse(EINVAL, "unknown key {}={}; plugin=cuda knows {}, and Ceph's own stripe_unit{}", key, value,
             fmt::join(our_keys, ", "), key == "w" ? "; w is 8 with every technique, and no key" : "");
}

/// "DD_D_" style: D for a shard that holds data, anything else for coding; chunks fill them in order.
std::vector<int> parse_mapping(const ErasureCodeProfile& profile, unsigned k, unsigned m) {
  const auto at = profile.find("mapping");
  if (at == profile.end() || at->second.empty()) return {};
  const std::string& text = at->second;
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

/// 0 where the key is absent.
int rule_count(const ErasureCodeProfile& profile, const char* key) {
  const auto at = profile.find(key);
  if (at == profile.end() || at->second.empty()) return 0;
  const std::string& text = at->second;
  unsigned count = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || rest != text.data() + text.size() || count > gf::max_chunks)
    refuse(EINVAL, "{}={} must be a whole number up to {}", key, text, gf::max_chunks);
  return static_cast<int>(count);
}

}  // namespace

std::span<const std::string_view> known_profile_keys() noexcept { return our_keys; }

PoolProfile parse_profile(ErasureCodeProfile& profile, bool of_a_pool) {
  refuse_unknown_keys(profile, of_a_pool);
  PoolProfile parsed;
  parsed.k = parse_count(profile, "k", "7");
  parsed.m = parse_count(profile, "m", "3");

  const std::string& technique = value_of(profile, "technique", "reed_sol_van");
  const auto known_technique = gf::parse_technique(technique);
  if (!known_technique) refuse(ENOENT, "technique={} must be one of {}", technique, gf::technique_names);
  parsed.technique = *known_technique;
  if (const auto error = gf::shape_error(parsed.technique, parsed.k, parsed.m); !error.empty())
    throw SetupError(EINVAL, error);

  const std::string& backend = value_of(profile, "backend", "auto");
  const auto known_backend = codec::parse_backend_choice(backend);
  if (!known_backend)
    refuse(ENOENT, "backend={} must be one of {}", backend, fmt::join(codec::backend_choices, ", "));
  parsed.backend = *known_backend;

  parsed.mapping = parse_mapping(profile, parsed.k, parsed.m);
  check_stripe_unit(profile, parsed.k);
  parsed.crush_root = value_of(profile, "crush-root", "default");
  parsed.crush_failure_domain = value_of(profile, "crush-failure-domain", "host");
  parsed.crush_device_class = value_of(profile, "crush-device-class", "");
  if (of_a_pool) return parsed;
  parsed.crush_failure_domains = rule_count(profile, "crush-num-failure-domains");
  parsed.crush_osds_per_failure_domain = rule_count(profile, "crush-osds-per-failure-domain");
  return parsed;
}

}  // namespace ec::ceph
