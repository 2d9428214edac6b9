// Parses the rules of EC_FAULTS, or says what is wrong with them.
#include "tests/drivers/fault/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "tests/drivers/fault/sites.hpp"

namespace ec::test::faults {
namespace {

struct NamedError {
  std::string_view name;
  int code;
};

// clang-format off
#define EC_ERROR(name) {#name, name}
/// The others have their numbers alone.
constexpr NamedError errors[] = {
    EC_ERROR(CUDA_ERROR_OUT_OF_MEMORY), EC_ERROR(CUDA_ERROR_NOT_INITIALIZED), EC_ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE),
    EC_ERROR(CUDA_ERROR_NO_DEVICE), EC_ERROR(CUDA_ERROR_INVALID_IMAGE), EC_ERROR(CUDA_ERROR_NOT_READY),
    EC_ERROR(CUDA_ERROR_ECC_UNCORRECTABLE), EC_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS), EC_ERROR(CUDA_ERROR_LAUNCH_FAILED),
    EC_ERROR(CUDA_ERROR_UNKNOWN)};
#undef EC_ERROR
// clang-format on

constexpr int context_enders[] = {
    CUDA_ERROR_ECC_UNCORRECTABLE,    CUDA_ERROR_ILLEGAL_ADDRESS,      CUDA_ERROR_LAUNCH_TIMEOUT,
    CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUDA_ERROR_MISALIGNED_ADDRESS,   CUDA_ERROR_LAUNCH_FAILED,        CUDA_ERROR_UNKNOWN};

/// Empty if there is no such site.
std::string site_named(std::string_view name) {
  if (name == "launch") return "cuLaunchKernel";
  if (name == "cuda") return std::string(name);
  for (const std::string& symbol : {std::string(name), std::string(name) + "_v2"})
    if (std::ranges::count(driver_sites, symbol) != 0) return symbol;
  return {};
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// What is behind `key`, if the text begins with that.
std::optional<std::string_view> value_of(std::string_view text, std::string_view key) {
  if (!text.starts_with(key)) return std::nullopt;
  return text.substr(key.size());
}

/// Each of these reads its part of a rule; whether it is one.
bool read_time(std::string_view text, Rule& rule) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto count = number<std::uint32_t>(text.substr(0, digits));
  const std::string_view unit = text.substr(digits);
  const int factor = unit == "us" ? 1 : unit == "ms" ? 1000 : unit == "s" ? 1'000'000 : 0;
  rule.time = std::chrono::microseconds(std::int64_t{count.value_or(0)} * factor);
  return rule.time.count() > 0;
}

bool read_when(std::string_view text, Rule& rule) {
  for (const auto& [key, when] : {std::pair{"nth=", Rule::When::nth}, {"every=", Rule::When::every}})
    if (const auto value = value_of(text, key)) {
      rule.when = when;
      rule.n = number<std::uint64_t>(*value).value_or(0);
      return rule.n != 0;
    }
  rule.when = Rule::When::probability;
  rule.probability = number<double>(value_of(text, "p=").value_or("")).value_or(0);
  return rule.probability > 0 && rule.probability <= 1;
}

bool read_what(std::string_view text, Rule& rule) {
  using What = Rule::What;
  const bool of_launch = rule.site == "cuLaunchKernel";
  for (const auto& [key, what] :
       {std::pair{"slow=", What::slow}, {"lost=", What::lost}, {"hang=", What::hang}})
    if (const auto value = value_of(text, key)) {
      rule.what = what;
      return read_time(*value, rule) && (what != What::hang || of_launch);
    }
  if (text == "hang" || text == "wrong") {
    rule.what = text == "hang" ? What::hang : What::wrong;
    return of_launch;
  }
  rule.what = What::error;
  rule.code = number<int>(text).value_or(0);
  for (const NamedError& error : errors)
    if (error.name == text) rule.code = error.code;
  rule.sticky = ends_context(rule.code);
  return rule.code > 0;
}

/// An empty answer, or what is wrong.
std::string read_rule(std::string_view text, Rule& rule) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == text.npos ? first : text.find(':', first + 1);
  if (second == text.npos) return "a rule is SITE:WHEN:WHAT";
  const auto site = text.substr(0, first);
  const auto when = text.substr(first + 1, second - first - 1);
  const auto what = text.substr(second + 1);
  rule.site = site_named(site);
  if (rule.site.empty())
    return fmt::format("\"{}\" must be launch, cuda, or a function of the driver that is used", site);
  if (!read_when(when, rule))
    return fmt::format("\"{}\" must be nth=N, every=N or p=X, N a whole number from 1, 0 < X <= 1", when);
  if (!read_what(what, rule))
    return fmt::format(
        "\"{}\" cannot happen to {}: must be an error by name or number, slow=TIME, lost=TIME, of launch "
        "wrong, "
        "hang or hang=TIME, TIME as in 50ms",
        what, site);
  return {};
}

}  // namespace

bool ends_context(int code) { return std::ranges::find(context_enders, code) != std::end(context_enders); }

bool Rule::covers(std::string_view symbol) const { return site == symbol || site == "cuda"; }

bool Rule::due() {
  ++seen;
  switch (when) {
    case When::nth:
      return seen == n;
    case When::every:
      return seen % n == 0;
    case When::probability:
      break;
  }
  return std::uniform_real_distribution<>()(random) < probability;
}

std::vector<Rule> parse_plan(std::string_view text, std::string* why) {
  std::vector<Rule> rules;
  why->clear();
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(';', start), text.size());
    const std::string_view part = text.substr(start, end - start);
    start = end + 1;
    if (part.empty()) continue;
    rules.emplace_back();
    if (const std::string wrong = read_rule(part, rules.back()); !wrong.empty()) {
      *why = fmt::format("rule {}, \"{}\": {}", rules.size(), part, wrong);
      return {};
    }
  }
  return rules;
}

}  // namespace ec::test::faults
