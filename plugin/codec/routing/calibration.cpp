// The calibration file: JSON out of a cost table and back, and the files it is trusted from.
#include "plugin/codec/routing/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "plugin/codec/settings/setup_error.hpp"
#include "support/files.hpp"

namespace ec::codec {
namespace {

using nlohmann::json;

/// Counts up when the form of the file changes, or our kernels so much that old figures mislead.
constexpr int format = 3;
constexpr std::size_t largest_file = 64 * 1024;
/// Above any cost that makes sense, and far below what could overflow a sum.
constexpr double highest_us = 1e9;

SetupError refused(const std::string& why) { return SetupError(EINVAL, why); }

struct RateField {
  const char* key;
  double Rates::*member;
};
constexpr RateField rate_fields[] = {{"call_us", &Rates::call_us},
                                     {"stripe_us", &Rates::stripe_us},
                                     {"read_us_per_mb", &Rates::read_us_per_mb},
                                     {"written_us_per_mb", &Rates::written_us_per_mb},
                                     {"product_us_per_mb", &Rates::product_us_per_mb}};

json to_json(const Rates& r) {
  json object;
  for (const auto& [key, member] : rate_fields) object[key] = r.*member;
  return object;
}

const json& member(const json& object, const char* key) {
  const auto at = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || at == object.end()) throw refused(fmt::format("it has no {}", key));
  return *at;
}

double number(const json& object, const char* key, double lowest, double highest) {
  const json& value = member(object, key);
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= lowest && number <= highest))
    throw refused(fmt::format("{} must be a number from {} to {}", key, lowest, highest));
  return number;
}

std::string short_text(const json& object, const char* key) {
  const json& value = member(object, key);
  if (!value.is_string() || value.get_ref<const std::string&>().size() > 256)
    throw refused(fmt::format("{} must be a text of at most 256 bytes", key));
  return value.get<std::string>();
}

Rates rates(const json& object) {
  Rates r;
  for (const auto& [key, field] : rate_fields) r.*field = number(object, key, 0, highest_us);
  return r;
}

}  // namespace

std::string to_json(const Calibration& c) {
  json cpu = json::array();
  for (const Rates& each : c.costs.cpu) cpu.push_back(to_json(each));
  json file{{"format", format}, {"cpu", c.cpu}, {"date", c.date}, {"cpu_costs", cpu}, {"device", nullptr}};
  if (!c.gpu.empty())
    file["device"] = {{"gpu", c.gpu},
                      {"pageable", c.costs.pageable ? to_json(*c.costs.pageable) : json(nullptr)},
                      {"pinned", to_json(c.costs.pinned)}};
  return file.dump(2, ' ', true, json::error_handler_t::replace) + "\n";
}

Calibration parse_calibration(std::string_view text, const Machine& here) {
  const json file = json::parse(text, nullptr, false);
  if (file.is_discarded()) throw refused("it is not JSON");
  Calibration c;
  if (const double found = number(file, "format", 0, 1e6); found != format)
    throw refused(fmt::format("it is of format {}, and this version reads format {}", found, format));
  c.cpu = short_text(file, "cpu");
  if (c.cpu != here.cpu) throw refused("it was measured on another CPU than this machine's");
  c.date = short_text(file, "date");
  c.costs = default_costs();
  const json& classes = member(file, "cpu_costs");
  if (!classes.is_array() || classes.size() != c.costs.cpu.size())
    throw refused(fmt::format("cpu_costs must be a list of {} classes", c.costs.cpu.size()));
  std::ranges::transform(classes, c.costs.cpu.begin(), rates);
  const json& device = member(file, "device");
  if (device.is_null()) return c;
  c.gpu = short_text(device, "gpu");
  if (c.gpu.empty()) throw refused("gpu must not be empty");
  if (!here.gpus.empty() && std::ranges::find(here.gpus, c.gpu) == here.gpus.end())
    throw refused("it was measured on another GPU than this machine's");
  const json& staged = member(device, "pageable");
  c.costs.pageable = staged.is_null() ? std::nullopt : std::optional(rates(staged));
  c.costs.pinned = rates(member(device, "pinned"));
  return c;
}

Costs costs_from(const std::string& named, const Machine& here) {
  const std::string path = named.empty() ? default_calibration : named;
  std::string text, why;
  const int error =
      support::read_file(AT_FDCWD, path, support::Trust::root_or_self, largest_file, &text, &why);
  if (named.empty() && (error == -ENOENT || error == -ENOTDIR)) return {};
  try {
    if (error == 0) return {parse_calibration(text, here).costs, path, {}};
  } catch (const SetupError& e) {
    why = e.what();
  }
  return {default_costs(),
          {},
          fmt::format("ec_cuda: {} is not used, costs are the built-in ones: {}", path, why)};
}

void write_calibration(const std::string& path, const Calibration& calibration) {
  const auto fail = [&](const char* what, int error) {
    return SetupError(error, fmt::format("{} cannot be {}: {}", path, what, std::strerror(error)));
  };
  std::error_code error;
  const auto directory = std::filesystem::path(path).parent_path();
  if (!directory.empty() && !std::filesystem::is_directory(directory)) {
    std::filesystem::create_directories(directory, error);
    if (error) throw fail("made a directory for", error.value());
  }
  const int failure = support::replace_file(AT_FDCWD, path, to_json(calibration), 0644);
  if (failure != 0) throw fail("written", -failure);
}

}  // namespace ec::codec
