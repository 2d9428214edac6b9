// Prints a report as a table, and writes it as JSON.
#include "bench/common/report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <stdexcept>
#include <string_view>

#include "bench/commit.hpp"
#include "plugin/codec/routing/machine.hpp"

namespace ec::bench {
namespace {

std::string first_line(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// The settings that this process was given by its environment, as they stand in front of a command.
std::string settings() {
  std::vector<std::string> given;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (std::string_view(*variable).starts_with("EC_CUDA_")) given.emplace_back(std::string(*variable) + ' ');
  std::ranges::sort(given);
  return fmt::format("{}", fmt::join(given, ""));
}

std::string or_none(const std::string& text) { return text.empty() ? "none" : text; }

std::string text_of(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return value.dump();
  const double figure = value.get<double>();
  return figure < 1000 ? fmt::format("{:.4g}", figure) : fmt::format("{:.0f}", figure);
}

}  // namespace

Header make_header(const std::string& host_version, const std::string& subcommand,
                   const std::vector<std::string>& arguments, const Header& more) {
  const codec::Machine machine = codec::this_machine();
  const auto command = fmt::format("{}ec_bench {} {}", settings(), subcommand, fmt::join(arguments, " "));
  Header header{{"device", or_none(fmt::format("{}", fmt::join(machine.gpus, ", ")))},
                {"driver", or_none(first_line("/proc/driver/nvidia/version"))},
                {"cpu", machine.cpu},
                {"last-level cache", fmt::format("{} MiB", last_level_cache_bytes() >> 20)},
                {"host", host_version},
                {"commit", commit},
                {"command", command},
                {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))}};
  header.insert(header.end(), more.begin(), more.end());
  return header;
}

std::size_t last_level_cache_bytes() {
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

Report::Report(const std::string& file) : name_(file) {
  document_["rows"] = nlohmann::json::array();
  if (file.empty()) return;
  file_.open(file);
  if (!file_) throw UsageError(fmt::format("--json {}: must be a file that can be written", file));
}

void Report::begin(const Header& header) {
  for (const auto& [key, value] : header) {
    document_["header"][key] = value;
    fmt::print("{:<17} {}\n", key, value);
  }
  fmt::print("\n");
}

void Report::add(const Row& row) {
  const bool verified = row.at("verified");
  std::string titles;
  std::string line;
  for (const auto& [field, value] : row.items()) {
    if (value.is_boolean()) continue;
    // The first one has the longest texts.
    const std::size_t width = std::max<std::size_t>(field.size(), titles.empty() ? 21 : 8);
    titles += fmt::format("{:<{}} ", field, width);
    line += fmt::format("{:<{}} ", text_of(value), width);
  }
  if (document_["rows"].empty()) fmt::print("{}\n", titles);
  fmt::print("{}{}\n", line, verified ? "" : "WRONG BYTES");
  std::fflush(stdout);
  all_verified_ = all_verified_ && verified;
  document_["rows"].push_back(nlohmann::json(row));
}

int Report::finish() {
  if (file_.is_open()) {
    file_ << document_.dump(1) << '\n';
    if (!file_.flush()) throw std::runtime_error("cannot write " + name_);
  }
  return all_verified_ ? 0 : 1;
}

}  // namespace ec::bench
