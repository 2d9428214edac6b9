// ec repair: shards that are missing or damaged are made anew, in files of their own, and then put in place.
#include <algorithm>

#include "tools/ec/commands.hpp"

namespace ec::file {
namespace {

namespace fs = std::filesystem;

/// A name for a shard that nothing has.
fs::path free_path(const ShardSet& set, unsigned shard) {
  const std::string name = shard_name(set.name(), shard);
  fs::path path = set.directory / name;
  for (unsigned i = 1; fs::exists(fs::symlink_status(path)); ++i)
    path = set.directory / fmt::format("{}.{}.ec", name.substr(0, name.size() - 3), i);
  return path;
}

/// A shard that is made anew, and where it goes.
struct NewShard {
  unsigned shard;
  fs::path path;
  bool replaces;  ///< the damaged file of this very shard
  NewFile file;
};

/// Other files are never replaced: a name alone says nothing.
NewShard make(const ShardSet& set, unsigned shard) {
  for (const auto& file : set.shards[shard])
    if (file.is_one_shard_alone && !is_temporary(file.path))
      return {shard, file.path, true, NewFile(file.path.parent_path(), set.mode)};
  return {shard, free_path(set, shard), false, NewFile(set.directory, set.mode)};
}

/// What an interrupted run has left whole gets its name.
void name_temporaries(const ShardSet& set, Outcome* outcome) {
  for (unsigned i = 0; i < set.header.shards(); ++i) {
    const auto& files = set.shards[i];
    if (files.empty() || !std::ranges::all_of(files, [](const auto& f) { return is_temporary(f.path); }))
      continue;
    const auto whole =
        std::ranges::find_if(files, [](const auto& f) { return f.fault.empty() && f.bad_blocks == 0; });
    if (whole == files.end()) continue;
    const fs::path path = whole->path.parent_path() / free_path(set, i).filename();
    rename_to_free(whole->path, path);
    sync_directory(path.parent_path());
    outcome->text += fmt::format("shard {}: {} is now {}\n", i, printable(whole->path), printable(path));
  }
}

}  // namespace

Outcome repair(const Options& options) {
  Outcome outcome;
  const ShardSet set = find_set(options.paths, options.uuid, &outcome.notes);
  StripeReader reader(set);
  const Progress whole_time("", 0, false);
  if (const auto lost_stripes = count_damage(set, reader, options); lost_stripes > 0)
    fail(Status::lost, "beyond repair: {} of {} stripes have more than {} lost blocks; nothing was changed",
         lost_stripes, set.header.stripes(), set.header.m);
  outcome.report = describe(set);
  outcome.text = text_of(set);
  outcome.report["repaired"] = nlohmann::json::array();
  std::vector<unsigned> wanted;
  for (unsigned i = 0; i < set.header.shards(); ++i)
    if (!set.is_whole(i)) wanted.push_back(i);

  std::vector<NewShard> made;
  for (const unsigned i : wanted) {
    made.push_back(make(set, i));
    made.back().file.reserve(set.header.shard_file_bytes());
  }
  Progress progress("repair", set.header.object_bytes, !options.is_quiet);
  const auto code = [&](const Stripe& stripe) {
    if (reader.load(stripe, wanted) == StripeReader::Result::lost)
      fail(Status::lost, "stripe {} has more than {} lost blocks now; nothing was changed", stripe.number,
           set.header.m);
    for (auto& shard : made)
      shard.file.write_at(stripe.record(shard.shard), set.header.record_at(stripe.number));
  };
  if (!wanted.empty()) Pipeline(options.threads, progress).run(set.header, set.header.stripes(), code);
  for (auto& shard : made) {
    if (!reader.is_as_coded(shard.shard))
      fail(Status::failure, "shard {} did not become what it was; nothing was changed", shard.shard);
    finish(shard.file, set.header, shard.shard);
  }
  for (auto& shard : made) {
    shard.file.put_at(shard.path, shard.replaces);
    sync_directory(shard.path.parent_path());
    outcome.report["repaired"].push_back({{"shard", shard.shard}, {"path", printable(shard.path)}});
    outcome.text += fmt::format("shard {}: made anew as {}\n", shard.shard, printable(shard.path));
  }
  name_temporaries(set, &outcome);
  if (wanted.empty()) outcome.text += "nothing is damaged\n";
  add_rate(whole_time, set.header.object_bytes, &outcome);
  return outcome;
}

}  // namespace ec::file
