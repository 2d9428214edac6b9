#include "plugin/codec/routing/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "plugin/codec/settings/setup_error.hpp"
#include "support/files.hpp"

namespace ec::codec {
namespace {

using nlohmann::json;

/// Counts up when the form of the file changes, or our kernels so much that old figures mislead.
constexpr int format = 2;
constexpr std::size_t largest_file = 64 * 1024;
/// Above any cost that makes sense, and far below what could overflow a sum.
constexpr double highest_us = 1e9;

/// Why a text is no calibration of this machine. Stays within this file.
struct Refused {
  std::string why;
};

json to_json(const Rates& r) {
  return {{"call_us", r.call_us},
          {"stripe_us", r.stripe_us},
          {"read_us_per_mb", r.read_us_per_mb},
          {"written_us_per_mb", r.written_us_per_mb},
          {"product_us_per_mb", r.product_us_per_mb}};
}

const json& member(const json& object, const char* key) {
  const auto at = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || at == object.end()) throw Refused{fmt::format("it has no {}", key)};
  return *at;
}

double number(const json& object, const char* key, double lowest, double highest) {
  const json& value = member(object, key);
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= lowest && number <= highest))
    throw Refused{fmt::format("{} must be a number from {} to {}", key, lowest, highest)};
  return number;
}

std::string text(const json& object, const char* key) {
  const json& value = member(object, key);
  if (!value.is_string() || value.get_ref<const std::string&>().size() > 256)
    throw Refused{fmt::format("{} must be a text of at most 256 bytes", key)};
  return value.get<std::string>();
}

Rates rates(const json& object) {
  const auto cost = [&](const char* key) { return number(object, key, 0, highest_us); };
  return {cost("call_us"), cost("stripe_us"), cost("read_us_per_mb"), cost("written_us_per_mb"),
          cost("product_us_per_mb")};
}

void read_cpu(const json& classes, CostTable& costs) {
  if (!classes.is_array() || classes.size() != costs.cpu.size())
    throw Refused{fmt::format("cpu_costs must be a list of {} classes", costs.cpu.size())};
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < costs.cpu.size(); ++i) {
    const bool last = i + 1 == costs.cpu.size();
    std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
    if (!last) {
      const json& value = member(classes[i], "up_to_bytes");
      limit = value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
      if (limit <= below || limit > std::uint64_t{1} << 50)
        throw Refused{"up_to_bytes must be whole numbers that rise, up to 2^50"};
    }
    below = limit;
    costs.cpu[i] = {limit, rates(classes[i])};
  }
}

Calibration read(const json& file, const Machine& here) {
  Calibration c;
  if (const double found = number(file, "format", 0, 1e6); found != format)
    throw Refused{fmt::format("it is of format {}, and this version reads format {}", found, format)};
  c.cpu = text(file, "cpu");
  if (c.cpu != here.cpu) throw Refused{"it was measured on another CPU than this machine's"};
  c.date = text(file, "date");
  c.costs = default_costs();
  read_cpu(member(file, "cpu_costs"), c.costs);
  const json& device = member(file, "device");
  if (device.is_null()) return c;
  c.gpu = text(device, "gpu");
  if (c.gpu.empty()) throw Refused{"gpu must not be empty"};
  if (!here.gpus.empty() && std::ranges::find(here.gpus, c.gpu) == here.gpus.end())
    throw Refused{"it was measured on another GPU than this machine's"};
  const json& staged = member(device, "pageable");
  c.costs.pageable = staged.is_null() ? std::nullopt : std::optional(rates(staged));
  c.costs.pinned = rates(member(device, "pinned"));
  c.costs.device = rates(member(device, "device"));
  c.costs.parallel_calls = number(device, "parallel_calls", 1, 1024);
  return c;
}

/// The costs, or why not; *is_there says whether there was anything to refuse.
Costs read_costs(const std::string& path, const Machine& here, bool* is_there) try {
  *is_there = true;
  Costs costs;
  const auto refuse = [&](const std::string& why) {
    costs.refused = fmt::format("ec_cuda: {} is not used, costs are the built-in ones: {}", path, why);
    return costs;
  };
  std::string text, why;
  const int error =
      support::read_file(AT_FDCWD, path, support::Trust::root_or_self, largest_file, &text, &why);
  *is_there = error != -ENOENT && error != -ENOTDIR;
  if (error != 0) return refuse(why);
  const auto calibration = parse_calibration(text, here, &why);
  if (!calibration) return refuse(why);
  costs.table = calibration->costs;
  costs.path = path;
  return costs;
} catch (const std::bad_alloc&) {
  return {};
}

}  // namespace

std::string to_json(const Calibration& c) {
  json cpu = json::array();
  for (const CpuClass& each : c.costs.cpu) {
    cpu.push_back(to_json(each.rates));
    if (each.up_to_bytes != std::numeric_limits<std::uint64_t>::max())
      cpu.back()["up_to_bytes"] = each.up_to_bytes;
  }
  json file{{"format", format}, {"cpu", c.cpu}, {"date", c.date}, {"cpu_costs", cpu}, {"device", nullptr}};
  if (!c.gpu.empty())
    file["device"] = {{"gpu", c.gpu},
                      {"pageable", c.costs.pageable ? to_json(*c.costs.pageable) : json(nullptr)},
                      {"pinned", to_json(c.costs.pinned)},
                      {"device", to_json(c.costs.device)},
                      {"parallel_calls", c.costs.parallel_calls}};
  return file.dump(2, ' ', true, json::error_handler_t::replace) + "\n";
}

std::optional<Calibration> parse_calibration(std::string_view text, const Machine& here, std::string* why) {
  try {
    const json file = json::parse(text, nullptr, false);
    if (file.is_discarded()) throw Refused{"it is not JSON"};
    return read(file, here);
  } catch (const Refused& r) {
    *why = r.why;
  } catch (const json::exception&) {
    *why = "it is not JSON of the right form";
  }
  return std::nullopt;
}

std::vector<std::string> calibration_paths(const Environment& environment) {
  constexpr const char* name = "/ec_cuda/calibration.json";
  const auto directory = [&](const char* variable, const char* below) -> std::string {
    const char* value = environment(variable);
    return value != nullptr && *value == '/' ? std::string(value) + below : std::string();
  };
  std::string config = directory("XDG_CONFIG_HOME", "");
  if (config.empty()) config = directory("HOME", "/.config");
  std::vector<std::string> paths;
  if (!config.empty()) paths.push_back(config + name);
  paths.push_back(std::string("/etc") + name);
  return paths;
}

Costs costs_from(const std::string& path, const Machine& here) {
  bool is_there = false;
  return read_costs(path, here, &is_there);
}

Costs find_costs(const std::vector<std::string>& paths, const Machine& here) {
  for (const auto& path : paths) {
    bool is_there = false;
    Costs costs = read_costs(path, here, &is_there);
    if (is_there) return costs;
  }
  return {};
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
  const int failure = support::replace_file(AT_FDCWD, path, to_json(calibration), 0644, support::Sync::yes);
  if (failure != 0) throw fail("written", -failure);
}

}  // namespace ec::codec
