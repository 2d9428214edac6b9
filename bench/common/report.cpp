#include "bench/common/report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "bench/commit.hpp"
#include "bench/common/options.hpp"
#include "bench/common/stats.hpp"
#include "plugin/codec/routing/machine.hpp"

namespace ec::bench {
namespace {

std::string first_line(const std::filesystem::path& file) {
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

double object_gbps(const Row& row) {
  return static_cast<double>(object_bytes_per_call(row.what) * row.what.threads) / median(row.call_seconds) *
         1e-9;
}

double moved_gbps(const Row& row) {
  return static_cast<double>(moved_bytes_per_call(row.what) * row.what.threads) / median(row.call_seconds) *
         1e-9;
}

constexpr const char* columns =
    "{:<13} {:<12} {:>3} {:>2} {:>4} {:>9} {:>5} {:>7} {:>7} {:<9} {:<8} {:<4} {:>7} ";
constexpr const char* figures = "{:>10} {:>7} {:>9} {:>8} {:>7}";

}  // namespace

Header make_header(const std::string& host_version, const std::string& command_line, const Header& more) {
  const codec::Machine machine = codec::this_machine();
  Header header{{"device", or_none(fmt::format("{}", fmt::join(machine.gpus, ", ")))},
                {"driver", or_none(first_line("/proc/driver/nvidia/version"))},
                {"cpu", machine.cpu},
                {"last-level cache", fmt::format("{} MiB", last_level_cache_bytes() >> 20)},
                {"host", host_version},
                {"commit", commit},
                {"command", settings() + command_line},
                {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))}};
  header.insert(header.end(), more.begin(), more.end());
  return header;
}

std::string header_text(const Header& header) {
  std::string text;
  for (const auto& [key, value] : header) text += fmt::format("{:<17} {}\n", key, value);
  return text;
}

std::string table_head() {
  return fmt::format(fmt::runtime(columns), "op", "technique", "k", "m", "lost", "chunk B", "pool", "flight",
                     "threads", "back end", "path", "mem", "samples") +
         fmt::format(fmt::runtime(figures), "us/call", "noise %", "object", "moved", "ratio") +
         "   (object and moved in GB/s = 1e9 bytes)";
}

std::string table_row(const Row& row) {
  const Case& c = row.what;
  const std::string left = fmt::format(
      fmt::runtime(columns), c.op, gf::name(c.technique), c.k, c.m, c.erasures, c.chunk_bytes, c.stripes,
      c.threads, c.threads, row.contestant, row.path, c.cold ? "cold" : "warm", row.call_seconds.size());
  if (!row.verified) return left + "WRONG BYTES against " + row.verified_against;
  return left + fmt::format(fmt::runtime(figures), fmt::format("{:.2f}", 1e6 * median(row.call_seconds)),
                            fmt::format("{:.1f}", noise_percent(row.call_seconds)),
                            fmt::format("{:.2f}", object_gbps(row)), fmt::format("{:.2f}", moved_gbps(row)),
                            row.ratio > 0 ? fmt::format("{:.3f}", row.ratio) : "-");
}

nlohmann::json to_json(const Header& header, const std::vector<Row>& rows) {
  nlohmann::json report;
  for (const auto& [key, value] : header) report["header"][key] = value;
  report["rows"] = nlohmann::json::array();
  for (const Row& row : rows) {
    const Case& c = row.what;
    nlohmann::json entry{{"op", c.op},
                         {"technique", gf::name(c.technique)},
                         {"k", c.k},
                         {"m", c.m},
                         {"erasures", c.erasures},
                         {"object_bytes", c.object_bytes},
                         {"chunk_bytes", c.chunk_bytes},
                         {"pieces", c.pieces},
                         {"pool_stripes", c.stripes},
                         {"stripes_in_flight", c.threads},
                         {"threads", c.threads},
                         {"backend", row.contestant},
                         {"path", row.path},
                         {"memory", c.cold ? "cold" : "warm"},
                         {"verified", row.verified},
                         {"verified_against", row.verified_against},
                         {"samples", row.call_seconds.size()}};
    if (row.verified) {
      entry["median_seconds"] = median(row.call_seconds);
      entry["noise_percent"] = noise_percent(row.call_seconds);
      entry["object_gbps"] = object_gbps(row);
      entry["moved_gbps"] = moved_gbps(row);
    }
    if (row.ratio > 0) {
      entry["ratio"] = row.ratio;
      entry["baseline"] = row.baseline;
    }
    report["rows"].push_back(std::move(entry));
  }
  return report;
}

}  // namespace ec::bench
