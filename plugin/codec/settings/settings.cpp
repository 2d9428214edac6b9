// The table of EC_CUDA_ variables, and the parsing of their texts.
#include "plugin/codec/settings/settings.hpp"

#include <fmt/format.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <memory>

#include "support/process_life.hpp"

namespace ec::codec {
namespace {

/// A variable of the environment.
struct Variable {
  std::string_view name, text;
};

/// EINVAL, with a sentence that names the variable, its value and the allowed ones.
template <class... Args>
SetupError must_be(Variable v, fmt::format_string<Args...> allowed, Args&&... args) {
  return SetupError(EINVAL, fmt::format("{}={} must be {}", v.name, v.text,
                                        fmt::format(allowed, std::forward<Args>(args)...)));
}

constexpr std::uint64_t KiB = std::uint64_t{1} << 10, MiB = KiB << 10, TiB = MiB << 20;

std::uint64_t number(Variable v, std::uint64_t lowest, std::uint64_t highest) {
  return parse_number(v.name, v.text, lowest, highest);
}
std::size_t size(Variable v, std::uint64_t lowest) { return parse_number(v.name, v.text, lowest, TiB, true); }

Validation validation(Variable v) {
  constexpr std::string_view sample = "sample:";
  constexpr std::uint64_t rarest = 1'000'000'000;
  if (v.text == "off") return {.every = 0, .whole = false};
  if (v.text == "always") return {.every = 1, .whole = true};
  std::uint64_t every = 0;
  if (v.text.starts_with(sample)) {
    const char* end = v.text.data() + v.text.size();
    const auto [rest, error] = std::from_chars(v.text.data() + sample.size(), end, every);
    if (error != std::errc{} || rest != end || every > rarest) every = 0;
  }
  if (every == 0) throw must_be(v, "off, always, or sample:N with N from 1 to {}, for one call in N", rarest);
  return {.every = static_cast<unsigned>(every), .whole = false};
}

std::vector<int> devices(Variable v) {
  constexpr int highest = 63;
  std::vector<int> list;
  for (const char *at = v.text.data(), *end = at + v.text.size();; ++at) {
    unsigned ordinal = 0;
    const auto [rest, error] = std::from_chars(at, end, ordinal);
    if (error != std::errc{} || ordinal > highest || list.size() == kernels::cuda::most_devices ||
        std::ranges::count(list, static_cast<int>(ordinal)) != 0 || (rest != end && *rest != ','))
      throw must_be(v, "ordinals of GPUs from 0 to {}, separated by commas, at most {} and no two alike",
                    highest, kernels::cuda::most_devices);
    list.push_back(static_cast<int>(ordinal));
    at = rest;
    if (at == end) return list;
  }
}

/// Empty: no directory.
std::string directory_or_none(Variable v) {
  if (v.text == "none") return {};
  if (!v.text.starts_with('/')) throw must_be(v, "an absolute path or none");
  return std::string(v.text);
}

BackendChoice choice(Variable v) {
  const auto choice = parse_backend_choice(v.text);
  if (!choice) throw must_be(v, "one of {}", fmt::join(backend_choices, ", "));
  return *choice;
}

struct Setting {
  std::string_view name;
  void (*take)(NodeSettings&, Variable);
};
using Node = NodeSettings;
constexpr Setting settings_table[] = {
    {"EC_CUDA_BACKEND", [](Node& s, Variable v) { s.backend = choice(v); }},
    {"EC_CUDA_DEVICES", [](Node& s, Variable v) { s.device.devices = devices(v); }},
    {"EC_CUDA_THRESHOLD", [](Node& s, Variable v) { s.threshold_bytes = size(v, 0); }},
    {"EC_CUDA_DEADLINE_MS",
     [](Node& s, Variable v) { s.device.deadline = std::chrono::milliseconds(number(v, 1, 600'000)); }},
    {"EC_CUDA_RETRY_S",
     [](Node& s, Variable v) { s.device.retry_after = std::chrono::seconds(number(v, 0, 86'400)); }},
    {"EC_CUDA_STAGING_BYTES", [](Node& s, Variable v) { s.device.staging_bytes = size(v, MiB); }},
    {"EC_CUDA_VALIDATE", [](Node& s, Variable v) { s.validation = validation(v); }},
    {"EC_CUDA_STOCK_DIRECTORY", [](Node& s, Variable v) { s.stock_directory = directory_or_none(v); }},
    {"EC_CUDA_PINNED_BYTES", [](Node& s, Variable v) { s.device.pinned_bytes = size(v, 2 * MiB); }},
};

/// Settings of earlier versions. A unit that still has one must not keep a daemon from starting.
constexpr std::string_view retired_names[] = {"EC_CUDA_CALIBRATION", "EC_CUDA_REPRODUCERS",
                                              "EC_CUDA_PINNED_THRESHOLD"};

constexpr auto known_names = [] {
  std::array<std::string_view, std::size(settings_table)> names;
  std::ranges::transform(settings_table, names.begin(), &Setting::name);
  return names;
}();

NodeSettings read_node_settings() {
  const bool is_setuid = getauxval(AT_SECURE) != 0;
  if (const auto unknown = unknown_settings(is_setuid ? nullptr : environ); !unknown.empty())
    throw SetupError(EINVAL,
                     fmt::format("unknown variable {}; known are {}", unknown, fmt::join(known_names, ", ")));
  // Reads no variable where the process runs with more rights than its starter.
  return parse_node_settings(::secure_getenv);
}

}  // namespace

std::uint64_t parse_number(std::string_view name, std::string_view text, std::uint64_t lowest,
                           std::uint64_t highest, bool takes_suffix) {
  const auto refuse = [&] {
    return must_be({name, text}, "a whole number from {} to {}{}", lowest, highest,
                   takes_suffix ? " bytes; the suffixes K, M and G multiply by powers of 1024" : "");
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
  const auto at = std::ranges::find(backend_choices, text) - backend_choices.begin();
  return at == std::ssize(backend_choices) ? std::nullopt : std::optional(static_cast<BackendChoice>(at));
}

NodeSettings parse_node_settings(const std::function<const char*(const char*)>& environment) {
  NodeSettings s;
  for (const Setting& setting : settings_table)
    if (const char* text = environment(setting.name.data())) setting.take(s, {setting.name, text});
  return s;
}

std::span<const std::string_view> known_settings() noexcept { return known_names; }

std::string unknown_settings(const char* const* environ_block) {
  std::string unknown;
  for (; environ_block != nullptr && *environ_block != nullptr; ++environ_block) {
    const std::string_view entry(*environ_block);
    const std::string_view variable = entry.substr(0, entry.find('='));
    if (!variable.starts_with("EC_CUDA_") || std::ranges::count(known_names, variable) != 0 ||
        std::ranges::count(retired_names, variable) != 0)
      continue;
    if (!unknown.empty()) unknown += ", ";
    unknown += variable;
  }
  return unknown;
}

const NodeSettings& node_settings() {
  static constinit MadeOnce<const NodeSettings> of_process;
  return of_process.get([] { return std::make_unique<const NodeSettings>(read_node_settings()); });
}

}  // namespace ec::codec
