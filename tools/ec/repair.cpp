// ec repair: what is missing or damaged is made anew, in files of its own, and then put in place.
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

/// A file that the set keeps, made anew.
struct NewKept {
  std::size_t number;
  NewFile file;
};

std::vector<NewKept> make_kept(const ShardSet& set) {
  std::vector<NewKept> made;
  for (std::size_t i = 0; i < set.kept.size(); ++i) {
    if (ShardSet::is_whole(set.kept[i])) continue;
    made.push_back({i, NewFile(set.kept[i].path.parent_path(), set.mode)});
    made.back().file.reserve(set.header.files[i].bytes);
  }
  return made;
}

void write_kept(const ShardSet& set, std::vector<NewKept>& made, std::span<const std::byte> part,
                std::uint64_t offset) {
  split_by_file(set.header.files, part, offset, [&](std::size_t i, auto bytes, std::uint64_t at) {
    for (auto& kept : made)
      if (kept.number == i) kept.file.write_at(bytes, at);
  });
}

/// Puts the file in the place of the damaged one, which keeps another name: it may be somebody's new work.
std::string put_kept(const fs::path& path, NewFile& file) {
  if (!fs::exists(fs::symlink_status(path))) {
    file.put_at(path, false);
    return fmt::format("{}: made anew\n", printable(path));
  }
  const auto aside = [&](unsigned i) {
    return fs::path(path.string() + (i == 0 ? ".damaged" : fmt::format(".damaged.{}", i)));
  };
  unsigned i = 0;
  while (fs::exists(fs::symlink_status(aside(i)))) ++i;
  link_or_rename(path, aside(i));
  file.put_at(path, true);
  return fmt::format("{}: made anew; what was there is {}\n", printable(path), printable(aside(i)));
}

/// Other files are never replaced: a name alone says nothing.
NewShard make(const ShardSet& set, unsigned shard) {
  for (const auto& file : set.shards[shard])
    if (file.is_one_shard_alone && !is_temporary(file.path))
      return {shard, file.path, true, NewFile(file.path.parent_path(), set.mode)};
  return {shard, free_path(set, shard), false, NewFile(set.directory, set.mode)};
}

/// What an interrupted run has left whole gets its name.
void name_temporaries(const ShardSet& set, Outcome* outcome) {
  for (unsigned i = set.header.first_shard_file(); i < set.header.shards(); ++i) {
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
  const SetHeader& header = set.header;
  const Progress whole_time("", 0, false);
  if (const auto lost_stripes = count_damage(set, options); lost_stripes > 0)
    fail(Status::lost, "beyond repair: {} of {} stripes have more than {} lost blocks; nothing was changed",
         lost_stripes, header.stripes(), header.m);
  outcome.report = describe(set);
  outcome.text = text_of(set);
  outcome.report["repaired"] = nlohmann::json::array();
  std::vector<unsigned> wanted;
  std::vector<NewShard> made;
  std::vector<NewKept> made_kept = make_kept(set);
  for (unsigned i = 0; i < header.shards(); ++i) {
    if (set.is_whole(i)) continue;
    wanted.push_back(i);
    if (i < header.first_shard_file()) continue;
    made.push_back(make(set, i));
    made.back().file.reserve(header.shard_file_bytes());
  }
  StripeReader reader(set);
  Progress progress("repair", header.object_bytes, !options.is_quiet);
  const auto code = [&](const Stripe& stripe) {
    if (reader.load(stripe, wanted) == StripeReader::Result::lost)
      fail(Status::lost, "stripe {} has more than {} lost blocks now; nothing was changed", stripe.number,
           header.m);
    for (auto& shard : made) shard.file.write_at(stripe.record(shard.shard), header.record_at(stripe.number));
    if (!made_kept.empty())
      for_each_part(header, stripe,
                    [&](auto part, std::uint64_t offset) { write_kept(set, made_kept, part, offset); });
  };
  if (!wanted.empty()) Pipeline(options.threads, progress).run(set.header, header.stripes(), code);
  for (const unsigned i : wanted)
    if (!reader.is_as_coded(i))
      fail(Status::lost, "shard {} did not become what it was; nothing was changed", i);
  for (auto& shard : made) finish(shard.file, header, shard.shard);
  for (auto& kept : made_kept) {
    end_if_interrupted();
    kept.file.sync();
  }
  for (auto& shard : made) {
    shard.file.put_at(shard.path, shard.replaces);
    sync_directory(shard.path.parent_path());
    outcome.report["repaired"].push_back({{"shard", shard.shard}, {"path", printable(shard.path)}});
    outcome.text += fmt::format("shard {}: made anew as {}\n", shard.shard, printable(shard.path));
  }
  for (auto& kept : made_kept) {
    const fs::path& path = set.kept[kept.number].path;
    outcome.text += put_kept(path, kept.file);
    sync_directory(path.parent_path());
    outcome.report["repaired"].push_back({{"path", printable(path)}});
  }
  name_temporaries(set, &outcome);
  if (wanted.empty()) outcome.text += "nothing is damaged\n";
  add_rate(whole_time, header.object_bytes, &outcome);
  return outcome;
}

}  // namespace ec::file
