// ec repair: what is missing or damaged is made anew, in files of its own, and then put in place.
#include <algorithm>
#include <optional>

#include "tools/ec/commands.hpp"

namespace ec::file {
namespace {

/// A name for a shard that nothing has.
std::string free_name(const ShardSet& set, const Directory& place, unsigned shard) {
  std::string name = shard_name(set.name(), shard);
  for (unsigned i = 1; place.look(name); ++i)
    name = with_suffix(set.name(), fmt::format(".{:03}.{}.ec", shard, i));
  return name;
}

/// What is made anew, and where it goes.
struct Made {
  std::size_t number;  ///< of the shard, or of the kept file
  Place place;
  std::string name;
  std::optional<struct stat> old;  ///< the damaged file of this very shard, or what has the kept file's name
  std::string aside;               ///< what that will be called; empty: it goes
  NewFile file;

  void put() {
    if (old)
      file.put_over(name, *old, aside);
    else
      file.put_at(name);
  }
};

/// The directory that loses least when it is lost.
Place best_place(const ShardSet& set, const std::vector<Made>& made) {
  if (set.header.keeps_files) return set.directory;
  const auto shards_in = [&](const Place& place) {
    std::ptrdiff_t count = std::ranges::count(made, place, &Made::place);
    for (unsigned i = 0; i < set.header.shards(); ++i)
      count += std::ranges::count(set.shards[i], place, &ShardFile::place) > 0 ? 1 : 0;
    return count;
  };
  return *std::ranges::min_element(set.places, {}, shards_in);
}

bool has_name_of_kept(const ShardSet& set, const ShardFile& file) {
  return std::ranges::any_of(
      set.kept, [&](const ShardFile& kept) { return kept.place == file.place && kept.name == file.name; });
}

/// What is there is replaced only if it is this shard and no other: a name alone says nothing. A kept file's
/// name is for that file, which make_kept puts there.
Made make_shard(const ShardSet& set, unsigned shard, const std::vector<Made>& made) {
  for (const auto& file : set.shards[shard])
    if (file.is_one_shard_alone && !is_temporary(file.name) && !has_name_of_kept(set, file))
      return {shard, file.place, file.name, file.file->opened(), "", NewFile(file.place, 0600)};
  const Place place = best_place(set, made);
  return {shard, place, free_name(set, *place, shard), {}, "", NewFile(place, set.mode)};
}

/// What is there keeps another name: it may be somebody's new work.
Made make_kept(const ShardSet& set, std::size_t number, const std::vector<Made>& made) {
  const ShardFile& kept = set.kept[number];
  const auto old = kept.place->look(kept.name);
  if (!old) return {number, kept.place, kept.name, {}, "", NewFile(kept.place, set.mode)};
  std::string aside = with_suffix(kept.name, ".damaged");
  const auto is_taken = [&] {
    return kept.place->look(aside) || std::ranges::count(made, aside, &Made::aside) > 0;
  };
  for (unsigned i = 1; is_taken(); ++i) aside = with_suffix(kept.name, fmt::format(".damaged.{}", i));
  return {number, kept.place, kept.name, old, aside, NewFile(kept.place, kept.file ? 0600 : set.mode)};
}

void write_kept(const ShardSet& set, std::vector<Made>& made, std::span<const std::byte> part,
                std::uint64_t offset) {
  split_by_file(set.header.files, part, offset, [&](std::size_t i, auto bytes, std::uint64_t at) {
    const auto kept = std::ranges::lower_bound(made, i, {}, &Made::number);
    if (kept != made.end() && kept->number == i) kept->file.write_at(bytes, at);
  });
}

/// What an interrupted run has left whole gets its name.
void name_temporaries(const ShardSet& set, Outcome* outcome) {
  for (unsigned i = set.header.first_shard_file(); i < set.header.shards(); ++i) {
    const auto& files = set.shards[i];
    if (files.empty() ||
        !std::ranges::all_of(files, [](const auto& file) { return is_temporary(file.name); }))
      continue;
    const auto whole = std::ranges::find_if(files, [](const auto& file) { return ShardSet::is_whole(file); });
    if (whole == files.end()) continue;
    const std::string name = free_name(set, *whole->place, i);
    rename_to_free(*whole->place, whole->name, name);
    whole->place->sync();
    outcome->text += fmt::format("shard {}: {} is now {}\n", i, printable(whole->path()), printable(name));
  }
}

}  // namespace

Outcome repair(const Options& options) {
  Outcome outcome;
  const ShardSet set = find_set(options.paths, options.uuid, &outcome.notes, true);
  const SetHeader& header = set.header;
  const Progress whole_time("", 0, false);
  if (const auto lost_stripes = count_damage(set, options); lost_stripes > 0)
    fail(Status::lost, "beyond repair: {} of {} stripes have more than {} lost blocks; nothing was changed",
         lost_stripes, header.stripes(), header.m);
  outcome.report = describe(set);
  outcome.text = text_of(set);
  outcome.report["repaired"] = nlohmann::json::array();
  std::vector<unsigned> wanted;
  std::vector<Made> made, made_kept;
  for (std::size_t i = 0; i < set.kept.size(); ++i) {
    if (ShardSet::is_whole(set.kept[i])) continue;
    made_kept.push_back(make_kept(set, i, made_kept));
    made_kept.back().file.reserve(header.files[i].bytes);
  }
  for (unsigned i = 0; i < header.shards(); ++i) {
    if (set.is_whole(i)) continue;
    wanted.push_back(i);
    if (i < header.first_shard_file()) continue;
    made.push_back(make_shard(set, i, made));
    made.back().file.reserve(header.shard_file_bytes());
  }
  StripeReader reader(set);
  Progress progress("repair", header.object_bytes, !options.is_quiet);
  const auto code = [&](const Stripe& stripe) {
    if (reader.load(stripe, wanted) == StripeReader::Result::lost)
      fail(Status::lost, "stripe {} has more than {} lost blocks now; nothing was changed", stripe.number,
           header.m);
    for (auto& shard : made)
      shard.file.write_at(stripe.record(static_cast<unsigned>(shard.number)),
                          header.record_at(stripe.number));
    if (!made_kept.empty())
      for_each_part(header, stripe,
                    [&](auto part, std::uint64_t offset) { write_kept(set, made_kept, part, offset); });
  };
  if (!wanted.empty()) Pipeline(options.threads, progress).run(set.header, header.stripes(), code);
  for (const unsigned i : wanted)
    if (!reader.is_as_coded(i))
      fail(Status::lost, "shard {} did not become what it was; nothing was changed", i);
  for (auto& shard : made) write_headers(shard.file, header, static_cast<unsigned>(shard.number));
  for (auto* all : {&made, &made_kept})
    for (auto& file : *all) {
      end_if_interrupted();
      if (file.old && S_ISREG(file.old->st_mode)) file.file.be_like(*file.old);
      file.file.sync();
    }
  for (const auto& kept : set.kept)
    if (kept.file && !ShardSet::is_whole(kept)) kept.file->check_unchanged();
  // All of them, or none.
  for (auto* all : {&made, &made_kept})
    for (auto& file : *all) file.put();
  for (auto* all : {&made, &made_kept})
    for (auto& file : *all) file.place->sync();
  for (auto* all : {&made, &made_kept})
    for (auto& file : *all) file.file.keep();
  for (const auto& file : made) {
    const auto path = printable(file.place->path_of(file.name));
    outcome.report["repaired"].push_back({{"shard", file.number}, {"path", path}});
    outcome.text += fmt::format("shard {}: made anew as {}\n", file.number, path);
  }
  for (const auto& file : made_kept) {
    const auto path = printable(file.place->path_of(file.name));
    outcome.report["repaired"].push_back({{"path", path}});
    outcome.text += fmt::format("{}: made anew{}{}\n", path, file.aside.empty() ? "" : "; what was there is ",
                                file.aside.empty() ? "" : printable(file.place->path_of(file.aside)));
    if (!file.old) say_if_hidden(file.name, &outcome);
  }
  name_temporaries(set, &outcome);
  if (wanted.empty()) outcome.text += "nothing is damaged\n";
  add_rate(whole_time, header.object_bytes, &outcome);
  return outcome;
}

}  // namespace ec::file
