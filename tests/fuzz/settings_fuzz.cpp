// EC_CUDA_ variables: lines NAME=VALUE. What is taken and what is refused is decided here once more.
#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "plugin/codec/settings/settings.hpp"
#include "plugin/codec/settings/setup_error.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace ec::fuzz {
namespace {

struct Variable {
  std::string_view name;
  const char* value;
};
/// The first of a name counts.
using Variables = std::vector<Variable>;

const Variable* find(const Variables& variables, std::string_view name) {
  const auto at = std::ranges::find(variables, name, &Variable::name);
  return at == variables.end() ? nullptr : &*at;
}

struct Range {
  std::string_view name;
  std::uint64_t lowest, highest;
  bool size;  ///< takes K, M and G
};

constexpr std::uint64_t tebibyte = std::uint64_t{1} << 40;
constexpr std::array<Range, 6> ranges{{
    {"EC_CUDA_THRESHOLD", 0, tebibyte, true},
    {"EC_CUDA_DEADLINE_MS", 1, 600'000, false},
    {"EC_CUDA_RETRY_S", 0, 86'400, false},
    {"EC_CUDA_STAGING_BYTES", 1 << 20, tebibyte, true},
    {"EC_CUDA_PINNED_BYTES", 2 << 20, tebibyte, true},
    {"EC_CUDA_PINNED_THRESHOLD", 4096, tebibyte, true},
}};

const Range* range_of(std::string_view name) {
  const auto at = std::ranges::find(ranges, name, &Range::name);
  return at == ranges.end() ? nullptr : &*at;
}

/// What the text means, or nothing.
std::optional<std::uint64_t> number(std::string_view text, const Range& range) {
  unsigned shift = 0;
  if (range.size && !text.empty()) {
    if (text.back() == 'K') shift = 10;
    if (text.back() == 'M') shift = 20;
    if (text.back() == 'G') shift = 30;
  }
  if (shift != 0) text.remove_suffix(1);
  if (text.empty()) return std::nullopt;
  unsigned __int128 value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<unsigned>(c - '0');
    if (value >> 64 != 0) return std::nullopt;
  }
  value <<= shift;
  if (value < range.lowest || value > range.highest) return std::nullopt;
  return static_cast<std::uint64_t>(value);
}

/// The ordinals of a list, or nothing.
std::optional<std::vector<int>> ordinals(std::string_view text) {
  std::vector<int> list;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const auto one = number(text.substr(at, end - at), {"", 0, 63, false});
    if (!one || std::ranges::count(list, static_cast<int>(*one)) != 0) return std::nullopt;
    list.push_back(static_cast<int>(*one));
    at = end + 1;
  }
  return list.size() <= 16 ? std::optional(list) : std::nullopt;
}

bool is_modelled(std::string_view name) {
  return range_of(name) != nullptr || name == "EC_CUDA_DEVICES" || name == "EC_CUDA_CALIBRATION" ||
         name == "EC_CUDA_BACKEND";
}

/// Whether the value of a variable that is modelled here is allowed.
bool allowed(const Variable& v) {
  const std::string_view value = v.value;
  if (const Range* range = range_of(v.name)) return number(value, *range).has_value();
  if (v.name == "EC_CUDA_DEVICES") return ordinals(value).has_value();
  if (v.name == "EC_CUDA_CALIBRATION") return value == "none" || value.starts_with('/');
  if (v.name == "EC_CUDA_BACKEND")
    return value == "auto" || value == "cpu" || value == "gpu" || value == "x86" || value == "isal" ||
           value == "reference";
  return true;
}

void check_taken(const codec::NodeSettings& s, const Variables& variables) {
  const auto same = [&](std::string_view name, std::uint64_t taken) {
    if (const Variable* v = find(variables, name))
      expect(taken == number(v->value, *range_of(name)), "{}={} is {}", name, v->value, taken);
  };
  for (const Variable& v : variables)
    expect(find(variables, v.name) != &v || allowed(v), "{}={} is refused", v.name, v.value);
  if (const Variable* v = find(variables, "EC_CUDA_DEVICES"))
    expect(s.device.devices == ordinals(v->value), "{}={} is taken as it is", v->name, v->value);
  same("EC_CUDA_THRESHOLD", s.threshold_bytes.value_or(~std::uint64_t{0}));
  same("EC_CUDA_DEADLINE_MS", static_cast<std::uint64_t>(s.device.deadline.count()));
  same("EC_CUDA_RETRY_S", static_cast<std::uint64_t>(s.device.retry_after.count()));
  same("EC_CUDA_STAGING_BYTES", s.device.staging_bytes);
  same("EC_CUDA_PINNED_BYTES", s.device.pinned_bytes);
  same("EC_CUDA_PINNED_THRESHOLD", s.device.pinned_threshold);
  if (s.backend)
    expect(codec::name(*s.backend) == find(variables, "EC_CUDA_BACKEND")->value,
           "the back end that was named");
}

void check_refused(const codec::SetupError& error, const Variables& variables) {
  expect(error.code() == EINVAL, "EINVAL and not {}", error.code());
  const std::string_view text = error.what();
  for (const Variable& v : variables) {
    const std::string_view value = v.value;
    if (!text.starts_with(v.name) || !text.substr(v.name.size()).starts_with('=') ||
        !text.substr(v.name.size() + 1).starts_with(value) ||
        !text.substr(v.name.size() + 1 + value.size()).starts_with(" must be "))
      continue;
    expect(!is_modelled(v.name) || !allowed(v), "{}={} is allowed", v.name, v.value);
    return;
  }
  expect(false, "a refusal that names the variable, not: {}", text);
}

}  // namespace
}  // namespace ec::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ec::fuzz;
  std::string text(reinterpret_cast<const char*>(data), size);
  std::ranges::replace(text, '\n', '\0');
  Variables variables;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view line = text.data() + at;
    if (const auto equals = line.find('='); equals != std::string_view::npos)
      variables.push_back({line.substr(0, equals), line.data() + equals + 1});
    at += line.size() + 1;
  }
  try {
    const auto settings = ec::codec::parse_node_settings([&](const char* name) -> const char* {
      const Variable* v = find(variables, name);
      return v == nullptr ? nullptr : v->value;
    });
    check_taken(settings, variables);
  } catch (const ec::codec::SetupError& error) {
    check_refused(error, variables);
  }
  return 0;
}
