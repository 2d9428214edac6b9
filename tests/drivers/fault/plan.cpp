// Parses the rules of EC_FAULTS, or says what is wrong with them.
#include "tests/drivers/fault/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

#include "tests/drivers/fault/sites.hpp"

namespace ec::test::faults {
namespace {

struct NamedError {
  std::string_view name;
  int code;
  bool ends_context = false;
};

// clang-format off
#define EC_ERROR(name) {#name, name}
#define EC_FATAL(name) {#name, name, true}
constexpr NamedError errors[] = {
    EC_ERROR(CUDA_ERROR_INVALID_VALUE), EC_ERROR(CUDA_ERROR_OUT_OF_MEMORY), EC_ERROR(CUDA_ERROR_NOT_INITIALIZED),
    EC_ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE), EC_ERROR(CUDA_ERROR_NO_DEVICE), EC_ERROR(CUDA_ERROR_INVALID_DEVICE),
    EC_ERROR(CUDA_ERROR_INVALID_IMAGE), EC_ERROR(CUDA_ERROR_INVALID_CONTEXT), EC_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU),
    EC_ERROR(CUDA_ERROR_NOT_FOUND), EC_ERROR(CUDA_ERROR_NOT_READY), EC_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
    EC_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED), EC_ERROR(CUDA_ERROR_NOT_SUPPORTED),
    EC_ERROR(CUDA_ERROR_SYSTEM_NOT_READY),
    EC_FATAL(CUDA_ERROR_ECC_UNCORRECTABLE), EC_FATAL(CUDA_ERROR_ILLEGAL_ADDRESS), EC_FATAL(CUDA_ERROR_LAUNCH_TIMEOUT),
    EC_FATAL(CUDA_ERROR_CONTEXT_IS_DESTROYED), EC_FATAL(CUDA_ERROR_HARDWARE_STACK_ERROR),
    EC_FATAL(CUDA_ERROR_ILLEGAL_INSTRUCTION), EC_FATAL(CUDA_ERROR_MISALIGNED_ADDRESS),
    EC_FATAL(CUDA_ERROR_LAUNCH_FAILED), EC_FATAL(CUDA_ERROR_UNKNOWN),
    // Of nvrtc.h, whose numbers are part of NVRTC's interface.
    {"NVRTC_ERROR_OUT_OF_MEMORY", 1},
    {"NVRTC_ERROR_PROGRAM_CREATION_FAILURE", 2},
    {"NVRTC_ERROR_INVALID_INPUT", 3},
    {"NVRTC_ERROR_INVALID_OPTION", 5},
    {"NVRTC_ERROR_COMPILATION", 6},
    {"NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", 7},
    {"NVRTC_ERROR_INTERNAL_ERROR", 11},
};
#undef EC_ERROR
#undef EC_FATAL
// clang-format on

constexpr std::string_view wrong_sites[] = {"cuLaunchKernel",       "cuMemcpyHtoD_v2",      "cuMemcpyDtoH_v2",
                                            "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "nvrtcGetCUBIN"};

bool is_one_of(std::span<const std::string_view> list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

bool is_of_nvrtc(std::string_view site) { return site.starts_with("nvrtc"); }

/// Empty if there is no such site.
std::string site_named(std::string_view name) {
  if (name == "launch") return "cuLaunchKernel";
  if (name == "cuda" || name == "nvrtc") return std::string(name);
  for (const std::string& symbol : {std::string(name), std::string(name) + "_v2"})
    if (is_one_of(driver_sites, symbol) || is_one_of(nvrtc_sites, symbol)) return symbol;
  return {};
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::chrono::microseconds> duration(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto count = number<std::uint32_t>(text.substr(0, digits));
  const std::string_view unit = text.substr(digits);
  if (!count || *count == 0) return std::nullopt;
  if (unit == "us") return std::chrono::microseconds(*count);
  if (unit == "ms") return std::chrono::milliseconds(*count);
  if (unit == "s") return std::chrono::seconds(*count);
  return std::nullopt;
}

/// What follows `key` in "key=value", if that is the key.
std::optional<std::string_view> value_of(std::string_view text, std::string_view key) {
  if (!text.starts_with(key)) return std::nullopt;
  return text.substr(key.size());
}

/// Each of these reads its part of a rule; an empty answer, or what is wrong with it.
std::string read_site(std::string_view text, Rule& rule) {
  rule.site = site_named(text);
  if (!rule.site.empty()) return {};
  return fmt::format(
      "\"{}\" is no function of the driver's or NVRTC's that is used; allowed: launch, cuda, nvrtc, {}, {}",
      text, fmt::join(driver_sites, ", "), fmt::join(nvrtc_sites, ", "));
}

std::string read_when(std::string_view text, Rule& rule) {
  for (const auto& [key, when] : {std::pair{"nth=", Rule::When::nth}, {"every=", Rule::When::every}})
    if (const auto value = value_of(text, key)) {
      const auto n = number<std::uint64_t>(*value);
      rule.when = when;
      rule.n = n.value_or(0);
      return rule.n == 0 ? fmt::format("\"{}\" must be {}N, N a whole number from 1", text, key) : "";
    }
  if (const auto value = value_of(text, "p=")) {
    const std::size_t slash = std::min(value->find('/'), value->size());
    const auto p = number<double>(value->substr(0, slash));
    const auto seed = slash == value->size() ? 1 : number<std::uint64_t>(value->substr(slash + 1));
    if (!p || !seed || !(*p > 0) || *p > 1)
      return fmt::format("\"{}\" must be p=X or p=X/SEED, 0 < X <= 1, SEED a whole number", text);
    rule.when = Rule::When::probability;
    rule.probability = *p;
    rule.random.seed(*seed);
    return {};
  }
  return fmt::format("\"{}\" must be nth=N, every=N or p=X", text);
}

std::string read_time(std::string_view text, std::string_view key, Rule& rule) {
  const auto time = duration(text.substr(key.size()));
  if (!time)
    return fmt::format("\"{}\" must be {}TIME, a whole number from 1 of us, ms or s, such as 50ms", text,
                       key);
  rule.time = *time;
  return {};
}

std::string read_what(std::string_view text, Rule& rule) {
  using What = Rule::What;
  if (text == "wrong") {
    rule.what = What::wrong;
    return is_one_of(wrong_sites, rule.site)
               ? ""
               : fmt::format("{} makes no bytes that could be wrong; allowed: {}", rule.site,
                             fmt::join(wrong_sites, ", "));
  }
  if (value_of(text, "slow=")) {
    rule.what = What::slow;
    return read_time(text, "slow=", rule);
  }
  if (value_of(text, "lost=")) {
    rule.what = What::lost;
    if (is_of_nvrtc(rule.site)) return fmt::format("{} has no device that could be lost", rule.site);
    return read_time(text, "lost=", rule);
  }
  if (text == "hang" || value_of(text, "hang=")) {
    rule.what = What::hang;
    if (rule.site != "cuLaunchKernel")
      return fmt::format("{} cannot hang, only cuLaunchKernel can", rule.site);
    return text == "hang" ? "" : read_time(text, "hang=", rule);
  }
  rule.what = What::error;
  for (const NamedError& error : errors)
    if (error.name == text && text.starts_with("NVRTC") == is_of_nvrtc(rule.site)) rule.code = error.code;
  if (const auto code = number<int>(text); code && *code > 0) rule.code = *code;
  rule.sticky = !is_of_nvrtc(rule.site) && ends_context(rule.code);
  if (rule.code != 0) return {};
  std::vector<std::string_view> names;
  for (const NamedError& error : errors)
    if (error.name.starts_with("NVRTC") == is_of_nvrtc(rule.site)) names.push_back(error.name);
  return fmt::format(
      "\"{}\" is nothing that can happen to {}; allowed: wrong, slow=TIME, hang, hang=TIME, lost=TIME, an "
      "error's number, {}",
      text, rule.site, fmt::join(names, ", "));
}

std::string read_rule(std::string_view text, Rule& rule) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == text.npos ? first : text.find(':', first + 1);
  if (second == text.npos) return "a rule is SITE:WHEN:WHAT";
  std::string why = read_site(text.substr(0, first), rule);
  if (why.empty()) why = read_when(text.substr(first + 1, second - first - 1), rule);
  if (why.empty()) why = read_what(text.substr(second + 1), rule);
  return why;
}

}  // namespace

bool ends_context(int code) {
  return std::ranges::any_of(errors, [&](const NamedError& e) { return e.ends_context && e.code == code; });
}

bool Rule::covers(std::string_view symbol) const {
  return site == symbol || (site == "nvrtc" && is_of_nvrtc(symbol)) ||
         (site == "cuda" && !is_of_nvrtc(symbol));
}

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
