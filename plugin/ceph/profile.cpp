#include "plugin/ceph/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>

#include "plugin/codec/settings/setup_error.hpp"

namespace ec::ceph {
namespace {

using ::ceph::ErasureCodeProfile;
using codec::SetupError;

constexpr std::array<std::string_view, 8> our_keys{
    "k", "m", "technique", "backend", "mapping", "crush-root", "crush-failure-domain", "crush-device-class"};

bool is_hosts_key(std::string_view key) {
  return key == "plugin" || key == "directory" || key == "stripe_unit" || key.starts_with("crush-") ||
         key.starts_with("ruleset-");
}

/// The value of `key`; an absent or empty one becomes the default, as in Ceph's own plugins.
const std::string& value_of(ErasureCodeProfile& profile, const char* key, const char* fallback) {
  std::string& value = profile[key];
  if (value.empty()) value = fallback;
  return value;
}

unsigned parse_count(ErasureCodeProfile& profile, const char* key, const char* fallback) {
  const std::string& text = value_of(profile, key, fallback);
  unsigned value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || rest != end)
    throw SetupError(EINVAL, fmt::format("{}={} must be a whole number, at least {}, with k+m at most {}",
                                         key, text, std::string_view(key) == "k" ? 2 : 1, gf::max_chunks));
  return value;
}

void refuse_unknown_keys(const ErasureCodeProfile& profile) {
  for (const auto& [key, value] : profile)
    if (!is_hosts_key(key) && std::ranges::find(our_keys, key) == our_keys.end())
      throw SetupError(
          EINVAL,
          fmt::format("unknown key {}={}; plugin=cuda knows {}, and Ceph's own stripe_unit and crush-*", key,
                      value, fmt::join(our_keys, ", ")));
}

/// "DD_D_" style: D for a shard that holds data, anything else for coding; chunks fill them in order.
std::vector<int> parse_mapping(const ErasureCodeProfile& profile, unsigned k, unsigned m) {
  const auto at = profile.find("mapping");
  if (at == profile.end() || at->second.empty()) return {};
  const std::string& text = at->second;
  const auto data = static_cast<unsigned>(std::ranges::count(text, 'D'));
  if (text.size() != k + m || data != k)
    throw SetupError(
        EINVAL,
        fmt::format("mapping={} has {} positions, {} of them D; k={} and m={} need {} positions with {} D",
                    text, text.size(), data, k, m, k + m, k));
  std::vector<int> mapping;
  for (const bool want_data : {true, false})
    for (std::size_t position = 0; position < text.size(); ++position)
      if ((text[position] == 'D') == want_data) mapping.push_back(static_cast<int>(position));
  return mapping;
}

/// Ceph keeps k x stripe_unit in 32 bits and does not check: a stripe_unit of 4G with k=4 becomes a stripe of
/// 0. A text that is no size is left to the host, which parses it.
void refuse_wide_stripe(const ErasureCodeProfile& profile, unsigned k) {
  const auto at = profile.find("stripe_unit");
  if (at == profile.end()) return;
  std::uint64_t bytes = 0;
  const char* end = at->second.data() + at->second.size();
  const auto [rest, error] = std::from_chars(at->second.data(), end, bytes);
  constexpr std::string_view suffixes = "BKMGTPE";
  const std::size_t suffix = rest == end ? 0 : suffixes.find(*rest);
  if (error == std::errc::invalid_argument || suffix == std::string_view::npos) return;
  constexpr std::uint64_t highest = UINT32_MAX;
  if (error == std::errc::result_out_of_range ||
      bytes > (highest >> std::min<std::size_t>(10 * suffix, 63)) || (bytes << 10 * suffix) > highest / k)
    throw SetupError(EINVAL, fmt::format("stripe_unit={} with k={}: k x stripe_unit must be less than 4 GiB",
                                         at->second, k));
}

}  // namespace

std::span<const std::string_view> known_profile_keys() noexcept { return our_keys; }

PoolProfile parse_profile(ErasureCodeProfile& profile) {
  refuse_unknown_keys(profile);
  PoolProfile parsed;
  parsed.k = parse_count(profile, "k", "7");
  parsed.m = parse_count(profile, "m", "3");

  const std::string& technique = value_of(profile, "technique", "reed_sol_van");
  const auto known_technique = gf::parse_technique(technique);
  if (!known_technique)
    throw SetupError(ENOENT, fmt::format("technique={} must be one of {}", technique, gf::technique_names));
  parsed.technique = *known_technique;
  if (const auto error = gf::shape_error(parsed.technique, parsed.k, parsed.m); !error.empty())
    throw SetupError(EINVAL, error);

  const std::string& backend = value_of(profile, "backend", "auto");
  const auto known_backend = codec::parse_backend_choice(backend);
  if (!known_backend)
    throw SetupError(ENOENT,
                     fmt::format("backend={} must be one of {}", backend, codec::backend_choice_names));
  parsed.backend = *known_backend;

  parsed.mapping = parse_mapping(profile, parsed.k, parsed.m);
  refuse_wide_stripe(profile, parsed.k);
  parsed.crush_root = value_of(profile, "crush-root", "default");
  parsed.crush_failure_domain = value_of(profile, "crush-failure-domain", "host");
  parsed.crush_device_class = value_of(profile, "crush-device-class", "");
  return parsed;
}

}  // namespace ec::ceph
