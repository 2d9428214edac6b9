#include "plugin/codec/settings/settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "plugin/codec/settings/setup_error.hpp"

namespace ec::codec {
namespace {

struct ChoiceName {
  std::string_view text;
  BackendChoice choice;
};
constexpr std::array<ChoiceName, 6> choice_table{{{"auto", BackendChoice::automatic},
                                                  {"cpu", BackendChoice::cpu},
                                                  {"gpu", BackendChoice::gpu},
                                                  {"x86", BackendChoice::x86},
                                                  {"isal", BackendChoice::isal},
                                                  {"reference", BackendChoice::reference}}};

constexpr std::array<std::string_view, 13> known_variables{
    "EC_CUDA_BACKEND",          "EC_CUDA_DEVICES",       "EC_CUDA_THRESHOLD",       "EC_CUDA_DEADLINE_MS",
    "EC_CUDA_RETRY_S",          "EC_CUDA_STAGING_BYTES", "EC_CUDA_STAGING_THREADS", "EC_CUDA_PINNED_BYTES",
    "EC_CUDA_PINNED_THRESHOLD", "EC_CUDA_PINNED_REPORT", "EC_CUDA_CALIBRATION",     "EC_CUDA_VALIDATE",
    "EC_CUDA_REPRODUCERS"};

Validation parse_validation(std::string_view text) {
  constexpr std::string_view sample = "sample:";
  constexpr std::uint64_t rarest = 1'000'000'000;
  if (text == "off") return {.every = 0, .whole = false};
  if (text == "always") return {.every = 1, .whole = true};
  std::uint64_t every = 0;
  if (text.starts_with(sample)) {
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + sample.size(), end, every);
    if (error != std::errc{} || rest != end || every > rarest) every = 0;
  }
  if (every == 0)
    throw SetupError(
        EINVAL,
        fmt::format("EC_CUDA_VALIDATE={} must be off, always, or sample:N with N from 1 to {}, for one "
                    "call in N",
                    text, rarest));
  return {.every = static_cast<unsigned>(every), .whole = false};
}

std::vector<int> parse_devices(std::string_view text) {
  constexpr std::size_t most = 16;
  constexpr int highest = 63;
  const auto refuse = [&] {
    return SetupError(EINVAL,
                      fmt::format("EC_CUDA_DEVICES={} must be ordinals of GPUs from 0 to {}, separated "
                                  "by commas, at most {} and no two alike",
                                  text, highest, most));
  };
  std::vector<int> devices;
  for (const char *at = text.data(), *end = at + text.size();; ++at) {
    unsigned ordinal = 0;
    const auto [rest, error] = std::from_chars(at, end, ordinal);
    if (error != std::errc{} || ordinal > highest || devices.size() == most) throw refuse();
    if (std::ranges::count(devices, static_cast<int>(ordinal)) != 0) throw refuse();
    devices.push_back(static_cast<int>(ordinal));
    at = rest;
    if (at == end) return devices;
    if (*at != ',') throw refuse();
  }
}

}  // namespace

std::uint64_t parse_number(std::string_view name, std::string_view text, std::uint64_t lowest,
                           std::uint64_t highest, bool takes_suffix) {
  const auto refuse = [&] {
    return SetupError(
        EINVAL,
        fmt::format("{}={} must be a whole number from {} to {}{}", name, text, lowest, highest,
                    takes_suffix ? " bytes; the suffixes K, M and G multiply by powers of 1024" : ""));
  };
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{}) throw refuse();
  if (takes_suffix && rest + 1 == end) {
    const unsigned shift = *rest == 'K' ? 10 : *rest == 'M' ? 20 : *rest == 'G' ? 30 : 0;
    if (shift == 0 || value > (highest >> shift)) throw refuse();
    value <<= shift;
    ++rest;
  }
  if (rest != end || value < lowest || value > highest) throw refuse();
  return value;
}

std::optional<BackendChoice> parse_backend_choice(std::string_view text) {
  for (const auto& entry : choice_table)
    if (entry.text == text) return entry.choice;
  return std::nullopt;
}

std::string_view name(BackendChoice choice) {
  for (const auto& entry : choice_table)
    if (entry.choice == choice) return entry.text;
  return "?";
}

NodeSettings parse_node_settings(const Environment& environment) {
  NodeSettings s;
  if (const char* text = environment("EC_CUDA_BACKEND")) {
    s.backend = parse_backend_choice(text);
    if (!s.backend)
      throw SetupError(EINVAL,
                       fmt::format("EC_CUDA_BACKEND={} must be one of {}", text, backend_choice_names));
  }
  const auto number = [&](const char* variable, std::uint64_t fallback, std::uint64_t lowest,
                          std::uint64_t highest, bool takes_suffix = false) {
    const char* text = environment(variable);
    return text == nullptr ? fallback : parse_number(variable, text, lowest, highest, takes_suffix);
  };
  if (const char* text = environment("EC_CUDA_DEVICES")) s.devices = parse_devices(text);
  if (environment("EC_CUDA_THRESHOLD") != nullptr)
    s.threshold_bytes = number("EC_CUDA_THRESHOLD", 0, 0, std::uint64_t{1} << 40, true);
  s.deadline = std::chrono::milliseconds(
      number("EC_CUDA_DEADLINE_MS", static_cast<std::uint64_t>(s.deadline.count()), 1, 600'000));
  s.retry_after = std::chrono::seconds(
      number("EC_CUDA_RETRY_S", static_cast<std::uint64_t>(s.retry_after.count()), 0, 86'400));
  s.staging_bytes =
      number("EC_CUDA_STAGING_BYTES", s.staging_bytes, std::uint64_t{1} << 20, std::uint64_t{1} << 40, true);
  s.staging_threads = static_cast<unsigned>(number("EC_CUDA_STAGING_THREADS", s.staging_threads, 0, 64));
  s.pinned_bytes =
      number("EC_CUDA_PINNED_BYTES", s.pinned_bytes, std::uint64_t{2} << 20, std::uint64_t{1} << 40, true);
  s.pinned_threshold =
      number("EC_CUDA_PINNED_THRESHOLD", s.pinned_threshold, 4096, std::uint64_t{1} << 40, true);
  s.pinned_report = number("EC_CUDA_PINNED_REPORT", 0, 0, 1) != 0;
  const auto path_or_none = [&](const char* variable) -> std::string {
    const char* text = environment(variable);
    const std::string_view path = text == nullptr ? "" : text;
    if (text != nullptr && path != "none" && !path.starts_with('/'))
      throw SetupError(EINVAL, fmt::format("{}={} must be an absolute path or none", variable, path));
    return std::string(path);
  };
  s.calibration = path_or_none("EC_CUDA_CALIBRATION");
  if (const char* text = environment("EC_CUDA_VALIDATE")) s.validation = parse_validation(text);
  s.reproducers = path_or_none("EC_CUDA_REPRODUCERS");
  if (s.reproducers == "none") s.reproducers.clear();
  return s;
}

std::span<const std::string_view> known_settings() noexcept { return known_variables; }

std::string unknown_settings(const char* const* environ_block) {
  std::string unknown;
  for (; environ_block != nullptr && *environ_block != nullptr; ++environ_block) {
    const std::string_view entry(*environ_block);
    const std::string_view variable = entry.substr(0, entry.find('='));
    if (!variable.starts_with("EC_CUDA_")) continue;
    bool known = false;
    for (auto v : known_variables) known = known || v == variable;
    if (known) continue;
    if (!unknown.empty()) unknown += ", ";
    unknown += variable;
  }
  return unknown;
}

const NodeSettings& node_settings() {
  static const NodeSettings settings = [] {
    if (const auto unknown = unknown_settings(environ); !unknown.empty()) {
      std::string known;
      for (auto v : known_variables) known += fmt::format("{}{}", known.empty() ? "" : ", ", v);
      throw SetupError(EINVAL, fmt::format("unknown variable {}; known are {}", unknown, known));
    }
    const auto environment = [](const char* variable) -> const char* { return std::getenv(variable); };
    NodeSettings s = parse_node_settings(environment);
    if (s.calibration.empty())
      s.costs = find_costs(calibration_paths(environment), this_machine());
    else if (s.calibration != "none")
      s.costs = costs_from(s.calibration, this_machine());
    return s;
  }();
  return settings;
}

}  // namespace ec::codec
