// ec identify: which code files are shards of, of which nothing is known.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>

#include "ec/ec.h"
#include "tools/ec/commands.hpp"
#include "tools/ec/disk.hpp"

namespace ec::file {
namespace {

constexpr std::uint64_t run_bytes = 256, runs = 256;  // as many columns as ec_identify looks at

/// Runs of bytes spread evenly over the file.
class Sample {
 public:
  explicit Sample(std::uint64_t bytes)
      : step_(bytes <= run_bytes * runs ? run_bytes : (bytes - run_bytes) / (runs - 1)),
        bytes_(std::min(bytes, run_bytes * runs)) {}

  std::uint64_t place_of(std::uint64_t column) const {
    return column / run_bytes * step_ + column % run_bytes;
  }

  std::vector<std::byte> read(const File& file, std::uint64_t skip) const {
    std::vector<std::byte> all(bytes_);
    for (std::uint64_t at = 0; at < bytes_; at += run_bytes) {
      const auto length = std::min(run_bytes, bytes_ - at);
      if (file.read_at(std::span(all).subspan(at, length), skip + place_of(at)) != length)
        fail(Status::failure, "{}: it became shorter", printable(file.path()));
    }
    return all;
  }

 private:
  std::uint64_t step_, bytes_;
};

nlohmann::json identify_behind(const std::vector<File>& files, std::uint64_t bytes, std::uint64_t skip) {
  const Sample sample(bytes - skip);
  std::vector<std::vector<std::byte>> contents;
  std::vector<ec_source> sources;
  for (const File& file : files) contents.push_back(sample.read(file, skip));
  for (const auto& content : contents) sources.push_back({content.data(), EC_PAGEABLE});
  char* found = nullptr;
  if (ec_identify(sources.data(), sources.size(), contents.front().size(), &found) != 0)
    fail(Status::failure, "{}", ec_error_text());
  const std::unique_ptr<char, decltype(&std::free)> text(found, &std::free);
  auto report = nlohmann::json::parse(text.get());
  report["first_bad"] = skip + sample.place_of(report["first_bad"].get<std::uint64_t>());
  report["skip"] = skip;
  report["bytes"] = bytes;
  return report;
}

std::string names_of(const nlohmann::json& shards, const std::vector<File>& files) {
  std::string names;
  for (const auto& shard : shards) names += " " + printable(files[shard.get<std::size_t>()].path());
  return names;
}

}  // namespace

Outcome identify(const Options& options) {
  if (options.paths.size() < 2 || options.paths.size() > 255)
    fail(Status::usage, "{} files; allowed are 2 to 255", options.paths.size());
  std::vector<File> files;
  for (const auto& path : options.paths) files.emplace_back(nullptr, path);
  const auto [least, most] = std::ranges::minmax_element(files, {}, &File::bytes);
  const std::uint64_t bytes = least->bytes();
  Outcome outcome;
  if (bytes != most->bytes())
    outcome.notes.push_back(
        fmt::format("the files differ in length; their first {} bytes are looked at", bytes));
  if (options.skip.value_or(0) > bytes)
    fail(Status::usage, "--skip {}: there are {} bytes", *options.skip, bytes);
  nlohmann::json& report = outcome.report;
  report = identify_behind(files, bytes, options.skip.value_or(0));
  // zfec's headers have 2 to 4 bytes.
  for (std::uint64_t skip = 2; !options.skip && skip <= std::min<std::uint64_t>(4, bytes); ++skip)
    if (report["k"] != 0 && report["obeying"] != report["columns"] && report["first_bad"] < skip)
      report = identify_behind(files, bytes, skip);
  report["files"] = nlohmann::json::array();
  for (const File& file : files) report["files"].push_back(printable(file.path()));

  const bool is_known = report["k"] != 0, is_whole = report["obeying"] == report["columns"];
  outcome.status = !is_known ? Status::lost : is_whole ? Status::ok : Status::damaged;
  auto& text = outcome.text;
  text = fmt::format("{} files, {} of {} columns obey {} checks, behind {} bytes\n", files.size(),
                     report["obeying"].get<std::uint64_t>(), report["columns"].get<std::uint64_t>(),
                     report["checks"].size(), report["skip"].get<std::uint64_t>());
  if (is_known) text += fmt::format("k = {} data shards\n", report["k"].get<unsigned>());
  for (const auto& fit : report["fits"]) {
    text += fmt::format("{} with m = {} or more, for example:\n", fit["dialect"].get<std::string>(),
                        fit["m"].get<unsigned>());
    for (std::size_t i = 0; i < files.size(); ++i)
      if (const int chunk = fit["order"][i].get<int>(); chunk >= 0)
        text += fmt::format("{:>5} {}\n", chunk, printable(files[i].path()));
  }
  if (!report["damaged"].empty()) text += "damaged:" + names_of(report["damaged"], files) + "\n";
  if (is_known && !is_whole)
    text += fmt::format("the first bad byte is {}\n", report["first_bad"].get<std::uint64_t>());
  if (!report["outside"].empty()) text += "outside:" + names_of(report["outside"], files) + "\n";
  for (const auto& why : report["cannot_tell"]) text += "cannot tell " + why.get<std::string>() + "\n";
  return outcome;
}

}  // namespace ec::file
