// Parses the rules of EC_FAULTS, or says which of them is none.
#include "tests/drivers/fault/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

namespace ec::test::faults {
namespace {

#define EC_ERROR(name) \
  { #name, name }
/// The others have their numbers alone.
const std::map<std::string, int> named_errors{
    EC_ERROR(CUDA_ERROR_OUT_OF_MEMORY),      EC_ERROR(CUDA_ERROR_NOT_INITIALIZED),
    EC_ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE), EC_ERROR(CUDA_ERROR_NO_DEVICE),
    EC_ERROR(CUDA_ERROR_INVALID_IMAGE),      EC_ERROR(CUDA_ERROR_NOT_READY),
    EC_ERROR(CUDA_ERROR_ECC_UNCORRECTABLE),  EC_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS),
    EC_ERROR(CUDA_ERROR_LAUNCH_FAILED),      EC_ERROR(CUDA_ERROR_UNKNOWN)};
#undef EC_ERROR

constexpr int context_enders[] = {
    CUDA_ERROR_ECC_UNCORRECTABLE,    CUDA_ERROR_ILLEGAL_ADDRESS,      CUDA_ERROR_LAUNCH_TIMEOUT,
    CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUDA_ERROR_MISALIGNED_ADDRESS,   CUDA_ERROR_LAUNCH_FAILED,        CUDA_ERROR_UNKNOWN};

const std::map<std::string, Rule::What> effects{{"lost", Rule::What::lost},
                                                {"hang", Rule::What::hang},
                                                {"slow", Rule::What::slow},
                                                {"wrong", Rule::What::wrong}};
const std::map<std::string, int> microseconds{{"us", 1}, {"ms", 1000}, {"s", 1'000'000}};

/// Empty if there is no such site.
std::string site_named(const std::string& name) {
  if (name == "launch") return "cuLaunchKernel";
  if (name == "cuda") return name;
  for (const std::string& symbol : {name, name + "_v2"})
    if (std::ranges::count(driver_sites, symbol) != 0) return symbol;
  return {};
}

/// Made before there are threads: all regular expressions fill one cache of the C++ library.
const std::regex form(
    "(\\w+):(?:nth=([1-9]\\d{0,8})|every=([1-9]\\d{0,8})|p=(0?\\.\\d*[1-9]\\d*|1))"
    ":(?:(hang|wrong)|(lost|hang|slow)=([1-9]\\d{0,8})(us|ms|s)|([1-9]\\d{0,8})|(CUDA_ERROR_\\w+))");

/// Whether the text is a rule.
bool read_rule(const std::string& text, Rule& rule) {
  std::smatch part;
  if (!std::regex_match(text, part, form)) return false;
  const auto number = [&](int group) { return part[group].matched ? std::stoull(part[group]) : 0; };
  rule.site = site_named(part[1]);
  rule.nth = number(2);
  rule.each = number(3);
  if (part[4].matched) rule.probability = std::stod(part[4]);
  if (part[5].matched || part[6].matched) {
    rule.what = effects.at(part[5].str() + part[6].str());
    if (part[6].matched) rule.time = std::chrono::microseconds(number(7) * microseconds.at(part[8]));
  } else {
    const auto named = named_errors.find(part[10]);
    rule.code = named != named_errors.end() ? named->second : static_cast<int>(number(9));
    rule.sticky = std::ranges::count(context_enders, rule.code) != 0;
    if (rule.code == 0) return false;
  }
  const bool is_of_launch = rule.what == Rule::What::hang || rule.what == Rule::What::wrong;
  return !rule.site.empty() && (!is_of_launch || rule.site == "cuLaunchKernel" ||
                                (rule.what == Rule::What::wrong && rule.site == "cuMemcpyDtoHAsync_v2"));
}

}  // namespace

bool Rule::covers(std::string_view symbol) const { return site == symbol || site == "cuda"; }

bool Rule::due() {
  ++seen;
  if (nth != 0) return seen == nth;
  if (each != 0) return seen % each == 0;
  return std::uniform_real_distribution<>()(random) < probability;
}

std::vector<Rule> parse_plan(const std::string& text, std::string* why) {
  std::vector<Rule> rules;
  why->clear();
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) {
    if (part.empty()) continue;
    if (read_rule(part, rules.emplace_back())) continue;
    *why = fmt::format("rule {}, \"{}\", is none: see tests/drivers/fault/plan.hpp", rules.size(), part);
    return {};
  }
  return rules;
}

}  // namespace ec::test::faults
