// Prints and writes a report.
#include "bench/common/report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/algorithm/string.hpp>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "bench/commit.hpp"

namespace ec::bench {
namespace {

/// What stands behind the first `title` and a colon in a file of the system.
std::string line_of(const std::string& file, std::string_view title) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(title)) return boost::trim_copy(line.substr(line.find(':') + 1));
  return {};
}

/// The CPU, its threads and last cache, and the GPUs.
std::string machine() {
  const std::string cpu = line_of("/proc/cpuinfo", "model name");
  std::string text = fmt::format("{}; {} threads; last cache {} MiB", cpu.empty() ? "unknown CPU" : cpu,
                                 std::thread::hardware_concurrency(), cache_bytes(3) >> 20);
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none))
    text += "; " + line_of(gpu.path() / "information", "Model");
  return text;
}

}  // namespace

std::size_t cache_bytes(int level) {
  // The C library of Debian 12 says more of AMD's third level: twelve times as much on a Zen 5.
  std::size_t kibibytes = 0;
  std::ifstream(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", level)) >> kibibytes;
  return kibibytes * kib;
}

Value::Value(double figure)
    : text(std::isnan(figure) ? ""
           : figure < 1000    ? fmt::format("{:.4g}", figure)
                              : fmt::format("{:.0f}", figure)) {}

Row row_of(const Case& c, const Row& more) {
  Row row{{"op", c.op},
          {"technique", gf::name(c.technique)},
          {"k", c.k},
          {"m", c.m},
          {"chunk_bytes", c.chunk_bytes}};
  row.insert(row.end(), more.begin(), more.end());
  return row;
}

Report::Report(const CommandLine& line, const Header& more) {
  if (line.given("csv")) {
    file_.open(line.text("csv"));
    if (!file_)
      throw UsageError(fmt::format("--csv {}: must be a file that can be written", line.text("csv")));
  }
  Header header{{"machine", machine()},
                {"driver", line_of("/proc/driver/nvidia/version", "NVRM version")},
                {"commit", commit},
                {"command", line.typed()},
                {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))}};
  header.insert(header.end(), more.begin(), more.end());
  for (const auto& [name, text] : header)
    if (!text.empty()) note(name, text);
}

void Report::say(std::string line) {
  std::ranges::replace(line, '\n', ' ');
  fmt::print("{}\n", line);
  if (std::fflush(stdout) != 0) throw std::runtime_error("standard output cannot be written");
  file_ << line << std::endl;
  if (file_.is_open() && !file_) throw std::runtime_error("the file of --csv cannot be written");
}

void Report::add(const Row& row, bool verified) {
  std::vector<std::string> titles, texts;
  for (const auto& [title, value] : row) {
    titles.emplace_back(title);
    const bool plain = value.text.find_first_of(",\"#") == std::string::npos;
    texts.push_back(plain ? value.text : '"' + boost::replace_all_copy(value.text, "\"", "\"\"") + '"');
  }
  if (!verified) {
    all_right_ = false;
    return note("WRONG BYTES", fmt::format("{}", fmt::join(texts, ",")));
  }
  if (!std::exchange(has_titles_, true)) say(fmt::format("{}", fmt::join(titles, ",")));
  say(fmt::format("{}", fmt::join(texts, ",")));
}

int Report::finish() {
  if (all_right_ && !has_titles_)
    throw std::runtime_error("nothing was measured: no coder that is asked for does this");
  return all_right_ ? 0 : 1;
}

}  // namespace ec::bench
