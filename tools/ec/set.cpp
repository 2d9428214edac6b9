#include "tools/ec/set.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <functional>
#include <optional>
#include <set>

#include "tools/ec/failure.hpp"
#include "tools/ec/tree.hpp"

namespace ec::file {
namespace {

/// A header that was found in a file.
struct Claim {
  ShardHeader header;
  SetFile in;
};

/// The claims of one set.
using Claims = std::vector<Claim>;

/// How many shards of the set there are, among claims that count.
std::size_t shards_in(const Claims& claims, bool with_temporary) {
  std::set<unsigned> shards;
  for (const auto& claim : claims)
    if (with_temporary || !is_temporary(claim.in.name)) shards.insert(claim.header.shard);
  return shards.size();
}

/// How many shards must be there for a set to be of use.
unsigned needed(const SetHeader& header) { return header.keeps_files ? 1 : header.k; }

/// What the paths of a command lead to, each directory opened once.
struct GivenPaths {
  std::vector<Place> directories;  ///< that were named
  std::vector<Place> places;       ///< these, and the directories of files that were named
  std::set<std::pair<Place, std::string>> named;
};

GivenPaths find(const std::vector<std::string>& paths) {
  GivenPaths found;
  const auto once = [&](const Place& place) {
    for (const auto& known : found.places)
      if (is_same(known->opened(), place->opened())) return known;
    return found.places.emplace_back(place);
  };
  for (const auto& path : paths) {
    if (const auto place = Directory::find(path)) {
      found.directories.push_back(once(place));
      continue;
    }
    const auto slash = path.rfind('/');
    const auto parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    found.named.emplace(once(Directory::open(parent)), path.substr(slash + 1));
  }
  return found;
}

std::string read_part(const File& file, std::uint64_t offset, std::size_t bytes) {
  std::string part(bytes, '\0');
  part.resize(file.read_at(std::as_writable_bytes(std::span(part)), offset));
  return part;
}

/// The headers of a file: none, one, or two that are of different shards.
Claims claims_of(const Place& place, const std::string& name, const File& file) {
  const std::uint64_t bytes = file.bytes();
  const auto front_bytes = claimed_header_bytes(read_part(file, 0, header_unit));
  const auto front = read_part(file, 0, std::min<std::uint64_t>(bytes, front_bytes));
  const auto first = parse_header(front);
  // With a first header it is known where the second one is.
  std::uint64_t last_bytes = most_header_bytes;
  const auto words = std::min<std::uint64_t>(bytes, last_words_bytes);
  const std::size_t claimed = claimed_last_header_bytes(read_part(file, bytes - words, words));
  if (first)
    last_bytes = first->set.header_bytes();
  else if (claimed > last_bytes && claimed <= bytes &&
           claimed_header_bytes(read_part(file, bytes - claimed, header_unit)) == claimed)
    last_bytes = claimed;
  last_bytes = std::min(bytes, last_bytes);
  const auto back = read_part(file, bytes - last_bytes, last_bytes);
  const auto last = first && back == front ? first : parse_last_header(back);
  Claims claims;
  if (first) claims.push_back({*first, {place, name, file, last ? "" : "the last header is damaged"}});
  if (last && last != first) claims.push_back({*last, {place, name, file, "the first header is damaged"}});
  for (auto& [header, in] : claims) {
    in.is_one_shard_alone = claims.size() == 1;
    const auto right = header.set.shard_file_bytes();
    if (bytes != right) in.fault = fmt::format("it has {} bytes in the place of {}", bytes, right);
    if (claims.size() == 2) in.fault = "its two headers are of different shards";
  }
  return claims;
}

/// The only set of which there is enough. If there are more, the user has to choose.
const Claims* choose(const std::vector<Claims>& sets) {
  enum { by_their_names, also_temporary, not_enough };
  for (const auto how : {by_their_names, also_temporary, not_enough}) {
    std::string choice;
    std::vector<const Claims*> found;
    for (const auto& claims : sets) {
      const SetHeader& set = claims.front().header.set;
      // What is temporary by itself is what an interrupted create has left.
      if (shards_in(claims, how == also_temporary) < (how == not_enough ? 1 : needed(set))) continue;
      found.push_back(&claims);
      choice += fmt::format("\n  {}: {} shards of {} that it needs", text_of(set), shards_in(claims, true),
                            needed(set));
    }
    if (found.size() > 1)
      fail(Status::usage, "{}: choose one by --set, or name its files{}",
           how == not_enough ? "of no set there are enough shards" : "there are shards of several sets",
           choice);
    if (!found.empty()) return found.front();
  }
  return nullptr;
}

/// The directory of the files that the set keeps: the first with more than half as many as any other has.
/// Where nothing is left, a directory that was named for it.
Place base_of_kept(const GivenPaths& found, const Claims& claims, const ShardSet& set) {
  const auto& places = found.places;
  // As they were written; of the right length; of any.
  std::vector<std::array<std::size_t, 3>> found_in(places.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    for (const FileEntry& entry : set.header.files) {
      const auto there = entry.is_directory ? std::nullopt : places[i]->look(entry.name);
      if (!there || !S_ISREG(there->st_mode)) continue;
      const bool is_right = static_cast<std::uint64_t>(there->st_size) == entry.bytes;
      found_in[i][0] += is_right && is_unchanged(*there, entry);
      found_in[i][1] += is_right;
      ++found_in[i][2];
    }
  for (const std::size_t how : {0, 1, 2}) {
    std::size_t most = 0;
    for (const auto& counts : found_in) most = std::max(most, counts[how]);
    for (std::size_t i = 0; i < places.size() && most > 0; ++i)
      if (2 * found_in[i][how] > most) return places[i];
  }
  Place base = set.directory;
  for (const auto& place : found.directories)
    if (std::ranges::count(claims, place, [](const Claim& claim) { return claim.in.place; }) == 0)
      base = place;
  return base;
}

/// The files that the set keeps, by their names in one directory, or named themselves. Files of a set of
/// version 1 came from any directories. A shard of the set is none of them, whatever its name.
void find_kept(const GivenPaths& found, const Claims& claims, ShardSet* set, std::string* denied) {
  const Place base = base_of_kept(found, claims, *set);
  const auto is_no_shard = [&](const File& file) {
    return std::ranges::none_of(
        claims, [&](const Claim& claim) { return is_same(claim.in.file->opened(), file.opened()); });
  };
  set->kept = std::vector<ShardFile>(set->header.files.size());
  for (std::size_t i = 0; i < set->kept.size(); ++i) {
    const FileEntry& entry = set->header.files[i];
    ShardFile& kept = set->kept[i];
    kept.place = base;
    kept.name = entry.name;
    kept.fault = "missing";
    const auto find_in = [&](const Place& place, bool is_of_any_length) {
      auto file = kept.file || entry.is_directory ? std::nullopt : File::find(place, entry.name, denied);
      if (!file || !is_no_shard(*file) || (!is_of_any_length && file->bytes() != entry.bytes)) return;
      kept.fault = file->bytes() == entry.bytes
                       ? ""
                       : fmt::format("it has {} bytes in the place of {}", file->bytes(), entry.bytes);
      set->mode &= file->opened().st_mode;
      kept.place = place;
      kept.file = std::move(file);
    };
    for (const auto& place : found.places)
      if (found.named.contains({place, entry.name})) find_in(place, true);
    if (set->header.version == 1) {
      find_in(base, false);
      for (const auto& place : found.places) find_in(place, false);
    }
    find_in(base, true);
    if (kept.file) continue;
    std::string name = entry.name;
    std::optional<struct stat> there;
    while (!name.empty() && !(there = base->look(name))) name = parent_of(name);
    const bool is_parent = name != entry.name, wants_directory = is_parent || entry.is_directory;
    if (there && S_ISDIR(there->st_mode) != wants_directory) {
      kept.is_obstructed = true;
      kept.fault = fmt::format("{} is {} directory; move it away", printable(base->path_of(name)),
                               wants_directory ? "not a" : "a");
    } else if (!is_parent && entry.is_directory) {
      kept.fault.clear();
    }
  }
}

std::string fault_of(const ShardFile& file) {
  if (file.bad_blocks == 0) return file.fault;
  return fmt::format("{}{}{} blocks are lost", file.fault, file.fault.empty() ? "" : "; ",
                     file.bad_blocks.load());
}

nlohmann::json describe(const ShardFile& file) {
  return {{"path", printable(file.path())}, {"fault", file.fault}, {"bad_blocks", file.bad_blocks.load()}};
}

}  // namespace

bool ShardSet::is_whole(unsigned shard) const {
  if (shard < header.first_shard_file()) return std::ranges::all_of(kept, &ShardFile::is_whole);
  return std::ranges::any_of(shards[shard],
                             [](const auto& file) { return file.is_whole() && !is_temporary(file.name); });
}

bool ShardSet::lacks_name(unsigned shard) const {
  const auto& files = shards[shard];
  return std::ranges::any_of(files, &ShardFile::is_whole) &&
         std::ranges::all_of(files, [](const auto& file) { return is_temporary(file.name); });
}

const char* ShardSet::remedy() const {
  return std::ranges::any_of(kept, &ShardFile::is_obstructed)
             ? "when nothing is in their way, ec repair makes them anew"
             : "ec repair makes them anew";
}

std::uint64_t ShardSet::stripes_there() const {
  std::vector<std::uint64_t> covered;
  for (unsigned i = header.first_shard_file(); i < header.shards(); ++i) {
    std::uint64_t most = 0;
    for (const auto& file : shards[i])
      if (const auto bytes = file.bytes(); bytes > header.header_bytes())
        most = std::max(most, (bytes - header.header_bytes()) / header.record_bytes);
    covered.push_back(std::min(most, header.stripes()));
  }
  std::ranges::sort(covered, std::greater());
  if (!header.keeps_files) return covered[header.k - 1];
  // Without coding all data must be there.
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < kept.size(); begin += header.files[i++].bytes)
    if (kept[i].bytes() < header.files[i].bytes)
      return std::max(covered.front(), (begin + kept[i].bytes()) / header.stripe_bytes());
  return header.stripes();
}

ShardSet find_set(const std::vector<std::string>& paths, const std::string& id,
                  std::vector<std::string>* notes, bool is_locked) {
  std::vector<Claims> sets;
  unsigned unfinished = 0;
  std::string denied;
  const GivenPaths found = find(paths);
  if (is_locked)
    for (const auto& place : found.places) place->lock();
  const auto look_at = [&](const Place& place, const std::string& name, const File& file) {
    end_if_interrupted();
    auto claims = claims_of(place, name, file);
    if (claims.empty() && is_temporary(name)) ++unfinished;
    for (auto& claim : claims) {
      if (!id_of(claim.header.set).starts_with(id)) continue;
      const auto known = std::ranges::find_if(
          sets, [&](const Claims& claims) { return claims.front().header.set == claim.header.set; });
      (known == sets.end() ? sets.emplace_back() : *known).push_back(std::move(claim));
    }
  };
  std::set<Place> looked;
  for (const auto& place : found.directories)
    for (const auto& name : looked.insert(place).second ? place->names() : std::vector<std::string>())
      if (const auto file = File::find(place, name, &denied)) look_at(place, name, *file);
  for (const auto& [place, name] : found.named)
    if (!looked.contains(place)) look_at(place, name, File(place, name));
  if (unfinished > 0)
    notes->push_back(
        fmt::format("{} files .ec-*.tmp are of a run that was interrupted, or is running", unfinished));
  const Claims* chosen = choose(sets);
  if (chosen == nullptr && !denied.empty()) fail(Status::failure, "{}", denied);
  if (chosen == nullptr)
    fail(Status::failure, "no shard {}in {}", id.empty() ? "" : "of that set ", printable(paths.front()));
  for (const auto& claims : sets)
    if (&claims != chosen)
      notes->push_back(fmt::format("left out: {} files of another set, {}", claims.size(),
                                   text_of(claims.front().header.set)));

  ShardSet set;
  set.header = chosen->front().header.set;
  set.shards.resize(set.header.shards());
  set.places = found.places;
  set.directory = chosen->front().in.place;
  set.mode = 0666;
  for (const auto& claim : *chosen) {
    static_cast<SetFile&>(set.shards[claim.header.shard].emplace_back()) = claim.in;
    set.mode &= claim.in.file->opened().st_mode;
  }
  if (set.header.keeps_files) find_kept(found, *chosen, &set, &denied);
  // What may not be read is not lost.
  const auto is_missing = [](const ShardFile& file) { return !file.file && !file.fault.empty(); };
  bool is_complete = std::ranges::none_of(set.kept, is_missing);
  for (unsigned i = set.header.first_shard_file(); i < set.header.shards(); ++i)
    is_complete = is_complete && !set.shards[i].empty();
  if (!is_complete && !denied.empty())
    fail(Status::failure, "{}, and something of the set is missing", denied);
  if (!denied.empty()) notes->push_back(denied);
  return set;
}

void write_headers(NewFile& file, const SetHeader& set, unsigned shard) {
  const std::string header = write_header({set, shard});
  file.write_at(std::as_bytes(std::span(header)), 0);
  file.write_at(std::as_bytes(std::span(header)), set.record_at(set.stripes()));
}

std::string with_suffix(const std::string& name, const std::string& suffix) {
  std::size_t length = std::min(name.size(), NAME_MAX - suffix.size());
  // No character of UTF-8 is cut in two.
  while (length > 0 && length < name.size() && (name[length] & 0xc0) == 0x80) --length;
  return name.substr(0, length) + suffix;
}

std::string shard_name(const std::string& name, unsigned shard) {
  return with_suffix(name, fmt::format(".{:03}.ec", shard));
}

std::string text_of(const SetHeader& header) {
  return fmt::format("{}: {}, {} bytes, {}+{} {}", id_of(header), printable(header.name()),
                     header.object_bytes, header.k, header.m, name_of(header.technique));
}

std::string text_of(const ShardSet& set) {
  std::string text = text_of(set.header) + "\n";
  for (const auto& file : set.kept)
    if (!file.is_whole()) text += fmt::format("{}: {}\n", printable(file.path()), fault_of(file));
  for (unsigned i = set.header.first_shard_file(); i < set.header.shards(); ++i) {
    if (set.shards[i].empty()) text += fmt::format("shard {}: missing\n", i);
    if (set.lacks_name(i)) text += fmt::format("shard {}: it has a temporary name\n", i);
    for (const auto& file : set.shards[i])
      if (!file.is_whole())
        text += fmt::format("shard {}: {}: {}{}\n", i, printable(file.path()), fault_of(file),
                            set.is_whole(i) ? "; another file is this shard, whole" : "");
  }
  return text;
}

nlohmann::json describe(const ShardSet& set) {
  const SetHeader& header = set.header;
  nlohmann::json all{{"set", to_string(header.uuid)},
                     {"format", header.version},
                     {"k", header.k},
                     {"m", header.m},
                     {"technique", name_of(header.technique)},
                     {"bytes", header.object_bytes},
                     {"stripes", header.stripes()},
                     {"record_bytes", header.record_bytes},
                     {"keeps_files", header.keeps_files}};
  auto files = nlohmann::json::array(), kept = files, shards = files;
  for (const auto& file : header.files)
    files.push_back({{"name", printable(file.name)}, {"bytes", file.bytes}});
  if (header.version != 1) all["block_bytes"] = header.block_bytes();
  for (const auto& file : set.kept) kept.push_back(describe(file));
  for (unsigned i = header.first_shard_file(); i < header.shards(); ++i) {
    nlohmann::json shard{{"shard", i}, {"files", nlohmann::json::array()}};
    for (const auto& file : set.shards[i]) shard["files"].push_back(describe(file));
    shard["state"] = set.is_whole(i) ? "whole" : set.shards[i].empty() ? "missing" : "damaged";
    shards.push_back(std::move(shard));
  }
  all["files"] = std::move(files);
  if (header.keeps_files) all["kept"] = std::move(kept);
  all["shards"] = std::move(shards);
  return all;
}

void check(const Error& error) {
  if (error)
    fail(error.code() == Errc::invalid_argument ? Status::usage : Status::failure, "{}", error.text());
}

Codec make_codec(unsigned k, unsigned m, Technique technique) {
  auto codec = Codec::create(k, m, technique);
  if (!codec) check(codec.error());
  return *codec;
}

StripeReader::StripeReader(const ShardSet& set)
    : set_(set),
      codec_(make_codec(set.header.k, set.header.m, set.header.technique)),
      digests_(set.header.shards()) {}

/// The blocks of one stripe, each read when it is asked for, and once.
class StripeReader::Blocks {
 public:
  /// `all_files`: looks at every file of a shard, so that all are counted.
  Blocks(const ShardSet& set, const Stripe& stripe, bool all_files)
      : set_(set), stripe_(stripe), all_files_(all_files), is_sound_(set.header.shards()) {
    const SetHeader& header = set.header;
    if (!header.keeps_files) return;
    for (unsigned i = header.k; !has_sums_ && i < header.shards(); ++i) has_sums_ = is_sound(i);
  }

  /// Whether the block is in the stripe as it was written. Without sums what is in kept files passes for
  /// that.
  bool is_sound(unsigned shard) {
    auto& known = is_sound_[shard];
    if (!known) known = shard < set_.header.first_shard_file() ? read_kept(shard) : read(shard);
    return *known;
  }
  bool has_sums() const { return has_sums_; }

 private:
  bool read(unsigned shard) const {
    const auto record = stripe_.record(shard);
    bool is_sound = false;
    for (const auto& file : set_.shards[shard]) {
      if (is_sound && !all_files_) break;
      if (file.file->read_at(record, set_.header.record_at(stripe_.number)) == record.size() &&
          stripe_.is_sound(shard)) {
        is_sound = true;
        // Before another file of this shard is read to its place.
        stripe_.take_sums(shard);
      } else {
        ++file.bad_blocks;
      }
    }
    return is_sound;
  }

  bool read_kept(unsigned shard) const {
    const SetHeader& header = set_.header;
    const auto block = stripe_.block(shard);
    const std::uint64_t offset = stripe_.number * header.stripe_bytes() + shard * header.block_bytes();
    std::size_t got = 0, there = 0;
    split_by_file(header.files, block, offset, [&](std::size_t i, auto part, std::uint64_t at) {
      there += part.size();
      if (set_.kept[i].file) got += set_.kept[i].file->read_at(part, at);
    });
    std::ranges::fill(block.subspan(there), std::byte{0});
    if (!has_sums_) stripe_.seal(shard);
    if (got == there && stripe_.is_sound(shard)) return true;
    split_by_file(header.files, block, offset, [&](std::size_t i, auto, auto) { ++set_.kept[i].bad_blocks; });
    return false;
  }

  const ShardSet& set_;
  const Stripe& stripe_;
  const bool all_files_;
  std::vector<std::optional<bool>> is_sound_;
  bool has_sums_ = false;
};

unsigned StripeReader::count_lost(const Stripe& stripe) {
  const SetHeader& header = set_.header;
  Blocks blocks(set_, stripe, true);
  unsigned lost = 0;
  for (unsigned i = 0; i < header.shards(); ++i)
    if (!blocks.is_sound(i)) ++lost;
  if (header.keeps_files) {
    const std::lock_guard lock(mutex_);
    for (unsigned i = 0; i < header.k; ++i) add_to(digests_[i], stripe.checksum(i));
    if (!blocks.has_sums() && lost <= header.m) ++without_sums_;
  }
  return lost;
}

std::uint64_t StripeReader::unproven_stripes() const {
  for (unsigned i = 0; i < set_.header.k; ++i)
    if (without_sums_ > 0 && !is_as_coded(i)) return without_sums_;
  return 0;
}

StripeReader::Result StripeReader::load(const Stripe& stripe, const std::vector<unsigned>& wanted) {
  Blocks blocks(set_, stripe, false);
  std::vector<unsigned> available, lost;
  for (const unsigned shard : wanted) (blocks.is_sound(shard) ? available : lost).push_back(shard);
  for (unsigned shard = 0; !lost.empty() && available.size() < set_.header.k; ++shard) {
    if (shard == set_.header.shards()) return Result::lost;
    if (std::ranges::find(wanted, shard) == wanted.end() && blocks.is_sound(shard))
      available.push_back(shard);
  }
  std::vector<Source> sources;
  std::vector<Target> targets;
  for (const unsigned shard : available) sources.emplace_back(stripe.block(shard));
  for (const unsigned shard : lost) targets.emplace_back(stripe.block(shard));
  if (!lost.empty()) check(codec_.decode(available, sources, lost, targets));
  for (const unsigned shard : lost) stripe.seal(shard);
  const std::lock_guard lock(mutex_);
  for (const unsigned shard : wanted) add_to(digests_[shard], stripe.checksum(shard));
  return lost.empty() ? Result::sound : Result::made_anew;
}

}  // namespace ec::file
