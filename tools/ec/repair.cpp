// ec repair: what is missing or damaged is made anew, in files of its own, and then put in place.
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "tools/ec/columns.hpp"
#include "tools/ec/commands.hpp"
#include "tools/ec/search.hpp"
#include "tools/ec/tree.hpp"

namespace ec::file {
namespace {

/// A name for a shard that nothing has.
std::string free_name(const ShardSet& set, const Directory& place, unsigned shard) {
  std::string name = shard_name(set.header.name(), shard);
  for (unsigned i = 1; place.look(name); ++i)
    name = with_suffix(set.header.name(), fmt::format(".{:03}.{}.ec", shard, i));
  return name;
}

/// What is made anew, and where it goes.
struct Replacement {
  bool is_shard;  ///< else a kept file
  std::size_t number;
  Place place;
  std::string name;
  std::optional<struct stat> old;  ///< the damaged file of this very shard, or what has the kept file's name
  std::string aside;               ///< what that will be called; empty: it goes
  NewFile file;
};

/// The directory that loses least when it is lost.
Place best_place(const ShardSet& set, const std::vector<Replacement>& made) {
  if (set.header.keeps_files) return set.directory;
  const auto shards_in = [&](const Place& place) {
    std::ptrdiff_t count = std::ranges::count(made, place, &Replacement::place);
    for (unsigned i = 0; i < set.header.shards(); ++i)
      count += std::ranges::count(set.shards[i], place, &ShardFile::place) > 0 ? 1 : 0;
    return count;
  };
  return *std::ranges::min_element(set.places, {}, shards_in);
}

bool has_name_of_kept(const ShardSet& set, const ShardFile& file) {
  return std::ranges::any_of(set.kept, [&](const ShardFile& kept) {
    if (last_name(kept.name) != file.name) return false;
    const auto there = kept.place->look(kept.name);
    return there && is_same(*there, file.file->opened());
  });
}

/// What is there is replaced only if it is this shard and no other: a name alone says nothing. A kept file's
/// name is for that file, which make_kept puts there.
Replacement make_shard(const ShardSet& set, unsigned shard, const std::vector<Replacement>& made) {
  for (const auto& file : set.shards[shard])
    if (file.is_one_shard_alone && !is_temporary(file.name) && !has_name_of_kept(set, file))
      return {true, shard, file.place, file.name, file.file->opened(), "", NewFile(file.place, 0600)};
  const Place place = best_place(set, made);
  return {true, shard, place, free_name(set, *place, shard), {}, "", NewFile(place, set.mode)};
}

/// The trees of kept files and the directories of shards, by their bases; each directory is synced once.
/// Before what is made in them, so that it goes last.
using Trees = std::map<Place, Tree>;
Tree& tree_at(Trees* trees, const Place& base) { return trees->try_emplace(base, base).first->second; }

/// What is there keeps another name: it may be somebody's new work.
Replacement make_kept(const ShardSet& set, std::size_t number, const std::vector<Replacement>& made,
                      Trees* trees) {
  const ShardFile& kept = set.kept[number];
  const Place place = tree_at(trees, kept.place).directory(parent_of(kept.name));
  const std::string name = last_name(kept.name);
  const auto old = place->look(name);
  if (!old) return {false, number, place, name, {}, "", NewFile(place, set.mode)};
  if (S_ISDIR(old->st_mode)) fail(Status::failure, "{} is a directory", printable(kept.path()));
  std::string aside = with_suffix(name, ".damaged");
  const auto is_taken = [&] {
    const auto is_kept_there = [&](const ShardFile& other) {
      return other.place == kept.place && parent_of(other.name) == parent_of(kept.name) &&
             last_name(other.name) == aside;
    };
    return place->look(aside) || std::ranges::count(made, aside, &Replacement::aside) > 0 ||
           std::ranges::any_of(set.kept, is_kept_there);
  };
  for (unsigned i = 1; is_taken(); ++i) aside = with_suffix(name, fmt::format(".damaged.{}", i));
  return {false, number, place, name, old, aside, NewFile(place, kept.file ? 0600 : set.mode)};
}

/// Whether the shard is damaged or missing, and does not lack its name alone.
bool is_made_anew(const ShardSet& set, unsigned shard) {
  return !set.is_whole(shard) && !set.lacks_name(shard);
}

/// What an interrupted run has left whole gets its name.
void name_temporaries(const ShardSet& set, Outcome* outcome) {
  for (unsigned i = set.header.first_shard_file(); i < set.header.shards(); ++i) {
    if (!set.lacks_name(i)) continue;
    const auto whole = std::ranges::find_if(set.shards[i], &ShardFile::is_whole);
    const std::string name = free_name(set, *whole->place, i);
    rename_to_free(*whole->place, whole->name, *whole->place, name);
    whole->place->sync();
    outcome->text += fmt::format("shard {}: {} is now {}\n", i, printable(whole->path()), printable(name));
  }
}

/// A kept file that gets its name back, and loses the name again unless keep is called.
class Renamed {
 public:
  Renamed(Place from, std::string old_name, Place to, std::string name, const struct stat& st)
      : from_(std::move(from)),
        to_(std::move(to)),
        old_name_(std::move(old_name)),
        name_(std::move(name)),
        read_(st) {}
  Renamed(Renamed&& other) noexcept = default;
  Renamed& operator=(Renamed&&) = delete;
  ~Renamed() {
    if (is_done_ && from_)
      renameat2(to_->fd_or_none(), name_.c_str(), from_->fd_or_none(), old_name_.c_str(), RENAME_NOREPLACE);
  }

  void put() {
    rename_to_free(*from_, old_name_, *to_, name_);
    is_done_ = true;
    if (const auto now = to_->look(name_); !now || !is_same(*now, read_))
      fail(Status::failure, "{} is another file than the one that was read", old_path());
  }
  void keep() noexcept { is_done_ = false; }
  /// For people: the names that it has and had.
  std::string path() const { return printable(to_->path_of(name_)); }
  std::string old_path() const { return printable(from_->path_of(old_name_)); }

 private:
  Place from_, to_;
  std::string old_name_, name_;
  struct stat read_;
  bool is_done_ = false;
};

/// What becomes whole.
struct Replacements {
  Trees trees;
  std::vector<Renamed> renamed;
  std::vector<Replacement> made;
};

/// Temporary files, with room, for all that is not whole: shards, then kept files, each by number.
void make_room(const ShardSet& set, Replacements* all) {
  const SetHeader& header = set.header;
  all->made.clear();
  for (unsigned i = header.first_shard_file(); i < header.shards(); ++i) {
    if (!is_made_anew(set, i)) continue;
    all->made.push_back(make_shard(set, i, all->made));
    all->made.back().file.reserve(header.shard_file_bytes());
    tree_at(&all->trees, all->made.back().place);
  }
  for (std::size_t i = 0; i < set.kept.size(); ++i) {
    if (set.kept[i].is_whole() || set.kept[i].is_moved()) continue;
    if (header.files[i].is_directory) {
      tree_at(&all->trees, set.kept[i].place).directory(set.kept[i].name);
      continue;
    }
    all->made.push_back(make_kept(set, i, all->made, &all->trees));
    all->made.back().file.reserve(header.files[i].bytes);
  }
}

void fail_if_lost(const SetHeader& set, std::uint64_t stripes) {
  if (stripes > 0) fail(Status::lost, "{}; nothing was changed", text_of_lost(set, stripes));
}

void make_by_stripes(ShardSet& set, const Options& options, Replacements* all, Outcome* outcome) {
  const SetHeader& header = set.header;
  fail_if_lost(header, count_damage(set, options));
  describe(set, options, outcome);  // a second reading counts bad blocks again
  std::vector<unsigned> wanted;
  for (unsigned i = 0; i < header.shards(); ++i)
    if (is_made_anew(set, i)) wanted.push_back(i);
  if (wanted.empty()) return;
  make_room(set, all);
  const auto first_kept = std::ranges::find(all->made, false, &Replacement::is_shard);
  const std::span shards(all->made.begin(), first_kept), kept(first_kept, all->made.end());
  StripeReader reader(set);
  Pipeline pipeline(options.threads, "repair", header.object_bytes, !options.is_quiet);
  pipeline.run(header, header.stripes(), [&](const Stripe& stripe) {
    if (reader.load(stripe, wanted) == StripeReader::Result::lost)
      fail(Status::lost, "stripe {} has more than {} lost blocks now; nothing was changed", stripe.number,
           header.m);
    for (auto& shard : shards)
      shard.file.write_at(stripe.record(static_cast<unsigned>(shard.number)),
                          header.record_at(stripe.number));
    if (kept.empty()) return;
    for_each_part(header, stripe, [&](auto part, std::uint64_t offset) {
      split_by_file(header.files, part, offset, [&](std::size_t i, auto bytes, std::uint64_t at) {
        const auto one = std::ranges::lower_bound(kept, i, {}, &Replacement::number);
        if (one != kept.end() && one->number == i) one->file.write_at(bytes, at);
      });
    });
  });
  for (const unsigned i : wanted)
    if (!reader.is_as_coded(i))
      fail(Status::lost, "shard {} did not become what it was; nothing was changed", i);
}

/// What is missing is made while all is read for the first time. What else is damaged shows then.
void make_by_columns(ShardSet& set, const Options& options, Replacements* all, Outcome* outcome) {
  const SetHeader& header = set.header;
  Columns columns(set, options.threads);
  Search search(&set, columns, options.is_recursive);
  fail_if_lost(header, header.columns - columns.columns_there());
  for (unsigned pass = 0;; ++pass) {
    if (pass == 4) fail(Status::failure, "files of the set change while they are read");
    make_room(set, all);
    OutputPlan plan(header);
    for (auto& one : all->made)
      if (one.is_shard)
        plan.shards[one.number] = &one.file;
      else
        columns.want(&plan, one.number, &one.file);
    for (std::size_t i = 0; i < set.kept.size(); ++i)
      if (columns.is_unproven(i) && !plan.files[i].is_wanted) columns.want(&plan, i, nullptr);
    const auto lost = columns.read(&plan, !options.is_quiet, "repair");
    if (lost > 0 && search.find_content()) continue;
    fail_if_lost(header, lost);
    bool is_all = true;
    for (std::size_t i = 0; i < set.kept.size(); ++i)
      if (columns.is_unproven(i) ||
          !(set.kept[i].is_whole() || set.kept[i].is_moved() || header.files[i].is_directory))
        is_all = is_all && plan.files[i].is_wanted;
    for (unsigned i = header.k; i < header.shards(); ++i)
      is_all = is_all && (!is_made_anew(set, i) || plan.shards[i] != nullptr);
    if (!is_all) continue;
    for (std::size_t i = 0; i < set.kept.size(); ++i)
      if (plan.files[i].is_wanted && columns.digest_of(plan, i) != header.files[i].digest)
        fail(Status::lost, "beyond repair: {} did not become what it was; nothing was changed",
             printable(set.kept[i].path()));
    for (unsigned i = header.k; i < header.shards(); ++i)
      if (plan.shards[i] != nullptr && columns.digest_of(i) != header.digests[i - header.k])
        fail(Status::lost, "shard {} did not become what it was; nothing was changed", i);
    for (const auto& kept : set.kept) {
      if (!kept.is_moved()) continue;
      const auto& [from, name] = *kept.moved_from;
      all->renamed.emplace_back(tree_at(&all->trees, from).directory(parent_of(name)), last_name(name),
                                tree_at(&all->trees, kept.place).directory(parent_of(kept.name)),
                                last_name(kept.name), kept.file->opened());
    }
    describe(set, options, outcome);
    return;
  }
}

/// All of it gets its name, or nothing does.
void put(const ShardSet& set, Replacements* all) {
  for (auto& one : all->made) {
    end_if_interrupted();
    const auto* const like = one.old && S_ISREG(one.old->st_mode) ? &*one.old : nullptr;
    if (one.is_shard) {
      write_headers(one.file, set.header, static_cast<unsigned>(one.number));
      one.file.sync(0, like);
      continue;
    }
    const FileEntry& entry = set.header.files[one.number];
    const Attributes attributes = attributes_of(entry);
    one.file.sync(entry.bytes, like, set.header.version == 1 ? nullptr : &attributes);
  }
  for (const auto& kept : set.kept)
    if (kept.file && !kept.is_whole()) kept.file->check_unchanged();
  for (auto& file : all->renamed) file.put();
  for (auto& one : all->made) one.file.put(one.name, one.old, one.aside);
  for (auto& [base, tree] : all->trees) tree.finish(set.header.files);
  for (auto& [base, tree] : all->trees) tree.sync();
  for (auto& file : all->renamed) file.keep();
  for (auto& one : all->made) one.file.keep();
  for (auto& [base, tree] : all->trees) tree.keep();
}

}  // namespace

Outcome repair(const Options& options) {
  Outcome outcome;
  ShardSet set = find_set(options.paths, options.uuid, &outcome.notes, true);
  const SetHeader& header = set.header;
  Replacements all;
  (header.version == 1 ? make_by_stripes : make_by_columns)(set, options, &all, &outcome);
  nlohmann::json repaired;
  if (options.is_json) repaired = nlohmann::json::array();
  put(set, &all);
  bool is_damaged = false;
  const auto note = [&](const std::string& path) {
    is_damaged = true;
    if (options.is_json) repaired.push_back({{"path", path}});
  };
  for (const auto& one : all.made) {
    const auto path = printable(one.place->path_of(one.name));
    note(path);
    if (one.is_shard) {
      outcome.text += fmt::format("shard {}: made anew as {}\n", one.number, path);
      if (options.is_json) repaired.back()["shard"] = one.number;
      continue;
    }
    outcome.text += fmt::format("{}: made anew{}{}\n", path, one.aside.empty() ? "" : "; what was there is ",
                                one.aside.empty() ? "" : printable(one.place->path_of(one.aside)));
    if (!one.old) say_if_hidden(one.name, &outcome);
  }
  for (const auto& file : all.renamed) {
    note(file.path());
    outcome.text += fmt::format("{}: {} has its name back\n", file.path(), file.old_path());
  }
  for (std::size_t i = 0; i < set.kept.size(); ++i)
    if (header.files[i].is_directory && !set.kept[i].is_whole()) {
      note(printable(set.kept[i].path()));
      outcome.text += fmt::format("{}: made anew\n", printable(set.kept[i].path()));
    }
  name_temporaries(set, &outcome);
  if (options.is_json) outcome.report["repaired"] = std::move(repaired);
  if (!is_damaged) outcome.text += "nothing is to be made anew\n";
  add_rate(header.object_bytes, &outcome);
  return outcome;
}

}  // namespace ec::file
