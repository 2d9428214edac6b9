#include "tools/ec/set.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>

#include "tools/ec/failure.hpp"

namespace ec::file {
namespace {

namespace fs = std::filesystem;

/// A header that was found in a file.
struct Claim {
  ShardHeader header;
  fs::path path;
  std::string fault;
  bool is_one_shard_alone = true;
  bool is_temporary = false;
};

/// The claims of one set.
using Claims = std::vector<Claim>;

/// How many shards of the set there are, among claims that count.
std::size_t shards_in(const Claims& claims, bool with_temporary) {
  std::set<unsigned> shards;
  for (const auto& claim : claims)
    if (with_temporary || !claim.is_temporary) shards.insert(claim.header.shard);
  return shards.size();
}

/// How many shards must be there for a set to be of use.
unsigned needed(const SetHeader& header) { return header.keeps_files ? 1 : header.k; }

/// Every regular file behind the paths, once.
std::set<fs::path> files_of(const std::vector<std::string>& paths) {
  std::set<fs::path> files;
  for (const auto& path : paths) {
    std::error_code error, passing;
    if (!fs::is_directory(path, error)) {
      files.insert(fs::canonical(path, error));
    } else {
      for (const auto& entry : fs::directory_iterator(path, error))
        if (entry.is_regular_file(passing)) files.insert(fs::canonical(entry.path()));
    }
    if (error) fail(Status::failure, "{} cannot be read: {}", printable(path), error.message());
  }
  return files;
}

std::string read_part(int fd, std::uint64_t offset, std::size_t bytes) {
  std::string part(bytes, '\0');
  int error = 0;
  part.resize(read_at(fd, std::as_writable_bytes(std::span(part)), offset, &error));
  return part;
}

/// The headers of a file: none, one, or two that are of different shards.
Claims claims_of(const fs::path& path, std::vector<std::string>* notes) {
  support::Descriptor fd;
  std::string why;
  if (support::open_file(AT_FDCWD, path, support::Trust::anyone, &fd, &why) != 0) {
    notes->push_back(fmt::format("{} is left out: {}", printable(path), why));
    return {};
  }
  struct stat st {};
  if (fstat(fd.get(), &st) != 0) return {};
  const auto bytes = static_cast<std::uint64_t>(st.st_size);
  std::string front = read_part(fd.get(), 0, header_unit);
  auto first = parse_header(front);
  if (!first && front.size() == header_unit) first = parse_header(read_part(fd.get(), 0, most_header_bytes));
  // With a first header it is known where the second one is.
  const auto last_bytes =
      std::min<std::uint64_t>(bytes, first ? first->set.header_bytes() : most_header_bytes);
  const auto last = parse_last_header(read_part(fd.get(), bytes - last_bytes, last_bytes));
  Claims claims;
  if (first) claims.push_back({*first, path, last ? "" : "the last header is damaged"});
  if (last && last != first) claims.push_back({*last, path, "the first header is damaged"});
  for (auto& claim : claims) {
    claim.is_one_shard_alone = claims.size() == 1;
    claim.is_temporary = is_temporary(path);
    const auto right = claim.header.set.shard_file_bytes();
    if (bytes != right) claim.fault = fmt::format("it has {} bytes in the place of {}", bytes, right);
    if (claims.size() == 2) claim.fault = "its two headers are of different shards";
  }
  return claims;
}

/// The only one for which `is_right` holds. More than one are for the user to choose from.
const Claims* only_one(const std::vector<Claims>& sets, const std::function<bool(const Claims&)>& is_right) {
  std::string choice;
  const Claims* found = nullptr;
  unsigned count = 0;
  for (const auto& claims : sets) {
    if (!is_right(claims)) continue;
    found = &claims;
    ++count;
    choice += "\n  " + text_of(claims.front().header.set);
  }
  if (count > 1)
    fail(Status::usage, "there are shards of several sets: choose one by --set UUID, or name its files{}",
         choice);
  return found;
}

const Claims* choose(const std::vector<Claims>& sets) {
  for (const bool with_temporary : {false, true})
    if (const auto* found = only_one(sets, [&](const Claims& claims) {
          return shards_in(claims, with_temporary) >= needed(claims.front().header.set);
        }))
      return found;
  // What is temporary by itself is what an interrupted create has left.
  return only_one(sets, [](const Claims& claims) { return shards_in(claims, false) > 0; });
}

/// Opens the file; what is there instead, or nothing, becomes its fault. Returns its mode.
mode_t open_kept(const FileEntry& entry, const fs::path& path, ShardFile* file) {
  struct stat st {};
  file->path = path;
  if (support::open_file(AT_FDCWD, path, support::Trust::anyone, &file->fd, &file->fault) != 0) return 0666;
  if (fstat(file->fd.get(), &st) != 0) return 0666;
  const auto bytes = static_cast<std::uint64_t>(st.st_size);
  if (bytes != entry.bytes)
    file->fault = fmt::format("it has {} bytes in the place of {}", bytes, entry.bytes);
  return st.st_mode;
}

/// The files that the set keeps, by their names: one that was named, or one beside its shards. A shard of the
/// set is none of them, whatever its name.
void find_kept(const std::vector<std::string>& paths, const Claims& claims, ShardSet* set) {
  std::vector<fs::path> places;
  for (const auto& path : paths)
    places.push_back(fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path());
  for (const auto& claim : claims) places.push_back(claim.path.parent_path());
  const auto is_no_shard = [&](const fs::path& path) {
    std::error_code error;
    return fs::is_regular_file(path, error) && std::ranges::none_of(claims, [&](const Claim& claim) {
             return fs::equivalent(claim.path, path, error);
           });
  };
  set->kept = std::vector<ShardFile>(set->header.files.size());
  for (std::size_t i = 0; i < set->kept.size(); ++i) {
    const FileEntry& entry = set->header.files[i];
    std::vector<fs::path> candidates;
    for (const fs::path path : paths)
      if (path.filename() == entry.name) candidates.push_back(path);
    for (const auto& place : places) candidates.push_back(place / entry.name);
    const auto found = std::ranges::find_if(candidates, is_no_shard);
    set->kept[i].path = set->directory / entry.name;
    set->kept[i].fault = "missing";
    if (found != candidates.end()) {
      set->kept[i].fault.clear();
      set->mode &= open_kept(entry, *found, &set->kept[i]);
    }
  }
}

std::string fault_of(const ShardFile& file) {
  if (file.bad_blocks == 0) return file.fault;
  return fmt::format("{}{}{} blocks are lost", file.fault, file.fault.empty() ? "" : "; ",
                     file.bad_blocks.load());
}

nlohmann::json describe(const ShardFile& file) {
  return {{"path", printable(file.path)}, {"fault", file.fault}, {"bad_blocks", file.bad_blocks.load()}};
}

}  // namespace

bool ShardSet::is_whole(unsigned shard) const {
  const auto is_right = [](const ShardFile& file) { return is_whole(file); };
  return shard < header.first_shard_file() ? std::ranges::all_of(kept, is_right)
                                           : std::ranges::any_of(shards[shard], is_right);
}

ShardSet find_set(const std::vector<std::string>& paths, const std::string& uuid,
                  std::vector<std::string>* notes) {
  std::vector<Claims> sets;
  unsigned unfinished = 0;
  for (const auto& path : files_of(paths)) {
    auto claims = claims_of(path, notes);
    if (claims.empty() && is_temporary(path)) ++unfinished;
    for (auto& claim : claims) {
      if (!text_of(claim.header.set.uuid).starts_with(uuid)) continue;
      const auto known = std::ranges::find_if(
          sets, [&](const Claims& claims) { return claims.front().header.set == claim.header.set; });
      (known == sets.end() ? sets.emplace_back() : *known).push_back(std::move(claim));
    }
  }
  if (unfinished > 0)
    notes->push_back(
        fmt::format("{} files .ec-*.tmp are those of a run that was interrupted, or is running", unfinished));
  const Claims* chosen = choose(sets);
  if (chosen == nullptr)
    fail(Status::failure, "no shard {}in {}", uuid.empty() ? "" : "of that set ", printable(paths.front()));
  for (const auto& claims : sets)
    if (&claims != chosen)
      notes->push_back(fmt::format("left out: {} files of another set, {}", claims.size(),
                                   text_of(claims.front().header.set)));

  ShardSet set;
  set.header = chosen->front().header.set;
  set.shards.resize(set.header.shards());
  set.directory =
      fs::is_directory(paths.front()) ? fs::path(paths.front()) : chosen->front().path.parent_path();
  set.mode = 0666;
  for (const auto& claim : *chosen) {
    ShardFile& file = set.shards[claim.header.shard].emplace_back();
    file.path = claim.path;
    file.fault = claim.fault;
    file.is_one_shard_alone = claim.is_one_shard_alone;
    std::string why;
    struct stat st {};
    if (support::open_file(AT_FDCWD, claim.path, support::Trust::anyone, &file.fd, &why) != 0 ||
        fstat(file.fd.get(), &st) != 0)
      fail(Status::failure, "{}: {}", printable(claim.path), why);
    set.mode &= st.st_mode;
  }
  if (set.header.keeps_files) find_kept(paths, *chosen, &set);
  return set;
}

void finish(NewFile& file, const SetHeader& set, unsigned shard) {
  end_if_interrupted();
  const std::string header = write_header({set, shard});
  file.write_at(std::as_bytes(std::span(header)), 0);
  file.write_at(std::as_bytes(std::span(header)), set.record_at(set.stripes()));
  file.sync();
}

std::string shard_name(const std::string& name, unsigned shard) {
  return fmt::format("{}.{:03}.ec", name, shard);
}

std::string text_of(const SetHeader& header) {
  return fmt::format("{}: {}, {} bytes, {}+{} {}", text_of(header.uuid), printable(header.files.front().name),
                     header.object_bytes, header.k, header.m, name_of(header.technique));
}

std::string text_of(const ShardSet& set) {
  std::string text = text_of(set.header) + "\n";
  for (const auto& file : set.kept)
    if (!set.is_whole(file)) text += fmt::format("{}: {}\n", printable(file.path), fault_of(file));
  for (unsigned i = set.header.first_shard_file(); i < set.header.shards(); ++i) {
    if (set.shards[i].empty()) text += fmt::format("shard {}: missing\n", i);
    for (const auto& file : set.shards[i])
      if (!set.is_whole(file))
        text += fmt::format("shard {}: {}: {}\n", i, printable(file.path), fault_of(file));
  }
  return text;
}

nlohmann::json describe(const ShardSet& set) {
  const SetHeader& header = set.header;
  nlohmann::json all{{"set", text_of(header.uuid)},
                     {"k", header.k},
                     {"m", header.m},
                     {"technique", name_of(header.technique)},
                     {"bytes", header.object_bytes},
                     {"stripes", header.stripes()},
                     {"record_bytes", header.record_bytes},
                     {"keeps_files", header.keeps_files}};
  for (const auto& file : header.files)
    all["files"].push_back({{"name", printable(file.name)}, {"bytes", file.bytes}});
  for (const auto& file : set.kept) all["kept"].push_back(describe(file));
  for (unsigned i = header.first_shard_file(); i < header.shards(); ++i) {
    nlohmann::json shard{{"shard", i}, {"files", nlohmann::json::array()}};
    for (const auto& file : set.shards[i]) shard["files"].push_back(describe(file));
    shard["state"] = set.is_whole(i) ? "whole" : set.shards[i].empty() ? "missing" : "damaged";
    all["shards"].push_back(std::move(shard));
  }
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
      int error = 0;  // a block that cannot be read is lost
      if (read_at(file.fd.get(), record, set_.header.record_at(stripe_.number), &error) == record.size() &&
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
      int error = 0;
      there += part.size();
      got += read_at(set_.kept[i].fd.get(), part, at, &error);
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
    std::vector<unsigned> data(header.k);
    std::iota(data.begin(), data.end(), 0u);
    add_digests(stripe, data);
    const std::lock_guard lock(mutex_);
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
  add_digests(stripe, wanted);
  return lost.empty() ? Result::sound : Result::made_anew;
}

void StripeReader::add_digests(const Stripe& stripe, std::span<const unsigned> shards) {
  const std::lock_guard lock(mutex_);
  for (const unsigned shard : shards) add_to(digests_[shard], stripe.checksum(shard));
}

}  // namespace ec::file
