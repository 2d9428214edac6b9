// ec verify and ec info: what is there, and what is wrong with it.
#include <algorithm>

#include "tools/ec/columns.hpp"
#include "tools/ec/commands.hpp"
#include "tools/ec/search.hpp"

namespace ec::file {
namespace {

std::uint64_t count_damage_by_columns(ShardSet& set, const Options& options) {
  Columns columns(set, options.threads);
  Search search(&set, columns, options.is_recursive);
  const bool is_all_there = columns.columns_there() == set.header.columns;
  std::uint64_t lost = columns.read(nullptr, !options.is_quiet, "verify");
  if (is_all_there && lost > 0 && search.find_content())
    lost = columns.read(nullptr, !options.is_quiet, "verify");
  if (lost > 0) return lost;
  // What has lost all sums is proven by the digest of what a repair would make.
  OutputPlan plan(set.header);
  for (std::size_t i = 0; i < set.kept.size(); ++i)
    if (columns.is_unproven(i)) columns.want(&plan, i, nullptr);
  if (std::ranges::none_of(plan.files, &OutputPlan::Output::is_wanted)) return 0;
  lost = columns.read(&plan, !options.is_quiet, "verify");
  for (std::size_t i = 0; i < set.kept.size(); ++i) {
    if (!plan.files[i].is_wanted || columns.digest_of(plan, i) == set.header.files[i].digest) continue;
    ++set.kept[i].bad_blocks;
    ++lost;
  }
  return lost;
}

}  // namespace

void describe(const ShardSet& set, const Options& options, Outcome* outcome) {
  if (options.is_json) outcome->report = describe(set);
  outcome->text = text_of(set);
}

void add_rate(std::uint64_t bytes, Outcome* outcome) {
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - outcome->begin;
  const double seconds = time.count(), rate = static_cast<double>(bytes) / seconds / 1e9;
  if (!outcome->report.is_null()) {
    outcome->report["seconds"] = seconds;
    outcome->report["gb_per_s"] = rate;
  }
  outcome->text += fmt::format("{} bytes in {:.2f} s, {:.2f} GB/s\n", bytes, seconds, rate);
}

std::string text_of_lost(const SetHeader& set, std::uint64_t stripes) {
  return fmt::format("beyond repair: {} of {} {} have more than {} lost blocks", stripes, set.stripes(),
                     set.version == 1 ? "stripes" : "columns", set.m);
}

void say_if_hidden(const std::string& name, Outcome* outcome) {
  if (name.starts_with('.'))
    outcome->notes.push_back(fmt::format("new is {}, a hidden file", printable(name)));
}

std::uint64_t count_damage(ShardSet& set, const Options& options) {
  if (set.header.version != 1) return count_damage_by_columns(set, options);
  StripeReader reader(set);
  std::atomic<std::uint64_t> lost_stripes{0};
  const std::uint64_t there = set.stripes_there();
  Pipeline(options.threads, "verify", set.header.object_bytes, !options.is_quiet)
      .run(set.header, there, [&](const Stripe& stripe) {
        if (reader.count_lost(stripe) > set.header.m) ++lost_stripes;
      });
  return lost_stripes + (set.header.stripes() - there) + reader.unproven_stripes();
}

Outcome verify(const Options& options) {
  Outcome outcome;
  ShardSet set = find_set(options.paths, options.uuid, &outcome.notes);
  const std::uint64_t lost_stripes = count_damage(set, options);
  const unsigned first = set.header.first_shard_file();
  const std::size_t files = set.kept.size() + set.header.shards() - first;
  auto damaged = std::ranges::count(set.kept, false, &ShardFile::is_whole);
  for (unsigned i = first; i < set.header.shards(); ++i)
    if (!set.is_whole(i)) ++damaged;
  const auto* const what = set.header.keeps_files ? "files and shards" : "shards";
  outcome.status = lost_stripes > 0 ? Status::lost : damaged > 0 ? Status::damaged : Status::ok;
  describe(set, options, &outcome);
  if (options.is_json) outcome.report["lost_stripes"] = lost_stripes;
  if (lost_stripes > 0)
    outcome.text += text_of_lost(set.header, lost_stripes) + "\n";
  else if (damaged > 0)
    outcome.text +=
        fmt::format("{} of {} {} are damaged or missing; {}\n", damaged, files, what, set.remedy());
  else
    outcome.text += fmt::format("all {} {} are whole\n", files, what);
  add_rate(set.header.object_bytes, &outcome);
  return outcome;
}

Outcome info(const Options& options) {
  Outcome outcome;
  const ShardSet set = find_set(options.paths, options.uuid, &outcome.notes);
  describe(set, options, &outcome);
  for (const auto& file : set.header.files)
    outcome.text += fmt::format("{:>16} {}\n", file.bytes, printable(file.name));
  const auto there = std::ranges::count_if(set.shards, [](const auto& files) { return !files.empty(); });
  outcome.text += fmt::format("{} of {} shards are there; ec verify reads them\n", there,
                              set.header.shards() - set.header.first_shard_file());
  return outcome;
}

}  // namespace ec::file
