// Prints a report as a table, and writes it as CSV.
#include "bench/common/report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "bench/commit.hpp"

namespace ec::bench {
namespace {

/// What stands behind the first `title` and a colon in a file of the system, or the first line without a
/// title.
std::string line_of(const std::string& file, std::string_view title) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (title.empty())
      return line;
    else if (line.starts_with(title))
      return line.substr(line.find_first_not_of(" \t", line.find(':') + 1));
  return {};
}

/// The CPU, its threads and last cache, and the GPUs.
std::string machine() {
  const std::string cpu = line_of("/proc/cpuinfo", "model name");
  std::string text = fmt::format("{}; {} threads; last cache {} MiB", cpu.empty() ? "unknown CPU" : cpu,
                                 std::thread::hardware_concurrency(), last_level_cache_bytes() >> 20);
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none))
    text += "; " + line_of(gpu.path() / "information", "Model");
  return text;
}

/// The settings that this process was given by its environment, as they stand in front of a command.
std::string settings() {
  std::vector<std::string> given;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (std::string_view(*variable).starts_with("EC_CUDA_")) given.emplace_back(std::string(*variable) + ' ');
  std::ranges::sort(given);
  return fmt::format("{}", fmt::join(given, ""));
}

}  // namespace

Header make_header(const std::string& host_version, const std::string& subcommand,
                   const std::vector<std::string>& arguments, const Header& more) {
  Header header{
      {"machine", machine()},
      {"driver", line_of("/proc/driver/nvidia/version", "")},
      {"host", host_version},
      {"commit", commit},
      {"command", fmt::format("{}ec_bench {} {}", settings(), subcommand, fmt::join(arguments, " "))},
      {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))}};
  header.insert(header.end(), more.begin(), more.end());
  std::erase_if(header, [](const auto& line) { return line.second.empty(); });
  return header;
}

std::size_t last_level_cache_bytes() {
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

std::string Value::text() const {
  if (const auto* number = std::get_if<std::uint64_t>(&value_)) return fmt::format("{}", *number);
  if (const auto* figure = std::get_if<double>(&value_))
    return *figure < 1000 ? fmt::format("{:.4g}", *figure) : fmt::format("{:.0f}", *figure);
  const auto* text = std::get_if<std::string>(&value_);
  return text != nullptr ? *text : "";
}

Report::Report(const std::string& file) : name_(file) {
  if (file.empty()) return;
  file_.open(file);
  if (!file_) throw UsageError(fmt::format("--csv {}: must be a file that can be written", file));
}

void Report::begin(const Header& header) {
  for (const auto& [name, value] : header) note(name, value);
  fmt::print("\n");
}

void Report::note(const std::string& name, const std::string& text) {
  fmt::print("{:<17} {}\n", name, text);
  file_ << "# " << name << ": " << text << '\n';
}

void Report::add(const Row& row, bool verified) {
  std::vector<std::string> titles, texts;
  std::string title_line, line;
  for (const auto& [field, value] : row) {
    titles.emplace_back(field);
    texts.push_back(value.text());
    // The first one has the longest texts.
    const std::size_t width = std::max<std::size_t>(titles.back().size(), titles.size() == 1 ? 21 : 8);
    title_line += fmt::format("{:<{}} ", field, width);
    line += fmt::format("{:<{}} ", texts.back().empty() ? "-" : texts.back(), width);
  }
  if (!has_titles_) {
    fmt::print("{}\n", title_line);
    file_ << fmt::format("{}\n", fmt::join(titles, ","));
  }
  has_titles_ = true;
  fmt::print("{}{}\n", line, verified ? "" : "WRONG BYTES");
  std::fflush(stdout);
  all_verified_ = all_verified_ && verified;
  // A row without figures is no result.
  if (verified) file_ << fmt::format("{}\n", fmt::join(texts, ",")) << std::flush;
}

int Report::finish() {
  if (file_.is_open() && !file_.flush()) throw std::runtime_error("cannot write " + name_);
  return all_verified_ ? 0 : 1;
}

void add_report_option(CommandLine& line) { line.add("csv", "", "write the report to this file too"); }

}  // namespace ec::bench
