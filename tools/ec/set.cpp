#include "tools/ec/set.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
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
          return shards_in(claims, with_temporary) >= claims.front().header.set.k;
        }))
      return found;
  // What is temporary by itself is what an interrupted create has left.
  return only_one(sets, [](const Claims& claims) { return shards_in(claims, false) > 0; });
}

}  // namespace

bool ShardSet::is_whole(unsigned shard) const {
  return std::ranges::any_of(shards[shard],
                             [](const ShardFile& f) { return f.fault.empty() && f.bad_blocks == 0; });
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
  for (unsigned i = 0; i < set.header.shards(); ++i) {
    if (set.shards[i].empty()) text += fmt::format("shard {}: missing\n", i);
    for (const auto& file : set.shards[i]) {
      if (file.fault.empty() && file.bad_blocks == 0) continue;
      text += fmt::format("shard {}: {}: {}", i, printable(file.path), file.fault);
      if (file.bad_blocks > 0)
        text += fmt::format("{}{} of {} blocks are lost", file.fault.empty() ? "" : "; ",
                            file.bad_blocks.load(), set.header.stripes());
      text += "\n";
    }
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
                     {"record_bytes", header.record_bytes}};
  for (const auto& file : header.files)
    all["files"].push_back({{"name", printable(file.name)}, {"bytes", file.bytes}});
  for (unsigned i = 0; i < header.shards(); ++i) {
    nlohmann::json shard{{"shard", i}, {"files", nlohmann::json::array()}};
    for (const auto& file : set.shards[i])
      shard["files"].push_back(
          {{"path", printable(file.path)}, {"fault", file.fault}, {"bad_blocks", file.bad_blocks.load()}});
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

bool StripeReader::read(const Stripe& stripe, unsigned shard, bool all_files) {
  bool is_sound = false;
  for (const auto& file : set_.shards[shard]) {
    if (is_sound && !all_files) break;
    const auto record = stripe.record(shard);
    int error = 0;  // a block that cannot be read is lost
    if (read_at(file.fd.get(), record, set_.header.record_at(stripe.number), &error) == record.size() &&
        stripe.is_sound(shard))
      is_sound = true;
    else
      file.bad_blocks.fetch_add(1, std::memory_order_relaxed);
  }
  return is_sound;
}

StripeReader::Result StripeReader::load(const Stripe& stripe, const std::vector<unsigned>& wanted) {
  std::vector<unsigned> available, lost;
  for (const unsigned shard : wanted) (read(stripe, shard, false) ? available : lost).push_back(shard);
  for (unsigned shard = 0; !lost.empty() && available.size() < set_.header.k; ++shard) {
    if (shard == set_.header.shards()) return Result::lost;
    if (std::ranges::find(wanted, shard) == wanted.end() && read(stripe, shard, false))
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
