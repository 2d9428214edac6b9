// Finds the shards of a set, and reads its stripes with what is lost made anew.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ec/codec.hpp"
#include "tools/ec/disk.hpp"
#include "tools/ec/format.hpp"
#include "tools/ec/pipeline.hpp"

namespace ec::file {

/// Where a file of a set is, or should be, and what is wrong with it.
struct SetFile {
  Place place;
  std::string name;
  std::optional<File> file;        ///< none: it is missing, or a directory
  std::string fault;               ///< what is wrong beside its blocks; empty if nothing
  bool is_one_shard_alone = true;  ///< neither header says that it is another shard, or of another set

  std::string path() const { return place->path_of(name); }
  std::uint64_t bytes() const { return file ? file->bytes() : 0; }
};

/// A file that says it is a shard of the set, or a file that the set keeps.
struct ShardFile : SetFile {
  mutable std::atomic<std::uint64_t> bad_blocks{0};  ///< of the blocks that were read
  bool is_obstructed = false;  ///< something in a kept file's way must be moved, and `fault` names it
  // Where a kept file of version 2 is not what it should be: a file that should have its name, and which of
  // its blocks are in which file at which offset.
  std::optional<std::pair<Place, std::string>> moved_from;
  std::unordered_map<std::uint64_t, std::pair<File, std::uint64_t>> found;

  /// Whether nothing is wrong with the file, as far as it was read.
  bool is_whole() const { return fault.empty() && bad_blocks == 0; }
  /// Whether the file lacks its name alone.
  bool is_moved() const { return moved_from && bad_blocks == 0; }
};

struct ShardSet {
  SetHeader header;
  std::vector<std::list<ShardFile>> shards;  ///< by number; more than one file can be the same shard
  std::vector<ShardFile> kept;               ///< the files of a set that keeps them
  std::vector<Place> places;                 ///< directories that were named, and of files that were named
  Place directory;                           ///< where a missing shard is made, if files are kept
  mode_t mode = 0;                           ///< of the shards that are there, what all allow

  /// Whether one of the files is the whole shard, and has its name; of data in kept files, whether all of
  /// these are whole.
  bool is_whole(unsigned shard) const;
  /// Whether a whole shard lacks its name alone: an interrupted run has left it under a temporary one.
  bool lacks_name(unsigned shard) const;
  /// What mends files that are not whole, for people.
  const char* remedy() const;
  /// Stripes from here on are lost: the files are too short, whatever is in them. Headers claim what they
  /// like, and this is what there can be.
  std::uint64_t stripes_there() const;
};

/// Finds a set. Paths are files, or directories whose files are looked at. The set is the only one of which k
/// shards are there, or else the only one; `id` (its first characters) chooses. What is left out is added to
/// *notes. `is_locked`: no other ec changes the set while the result is there. Throws Failure.
ShardSet find_set(const std::vector<std::string>& paths, const std::string& id,
                  std::vector<std::string>* notes, bool is_locked = false);

/// What there is of an object in its files: calls use(number of the file, bytes, their offset in it).
template <class Byte, class Use>
void split_by_file(const std::vector<FileEntry>& files, std::span<Byte> part, std::uint64_t offset, Use use) {
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < files.size() && !part.empty(); ++i) {
    const std::uint64_t end = begin + files[i].bytes;
    if (offset < end) {
      const auto bytes = std::min<std::uint64_t>(part.size(), end - offset);
      use(i, part.first(bytes), offset - begin);
      part = part.subspan(bytes);
      offset += bytes;
    }
    begin = end;
  }
}

/// The data blocks of a stripe as parts of the object, without what fills up the last ones: calls use(bytes,
/// their offset in the object).
template <class Use>
void for_each_part(const SetHeader& set, const Stripe& stripe, Use use) {
  for (unsigned i = 0; i < set.k; ++i) {
    const std::uint64_t offset = stripe.number * set.stripe_bytes() + i * set.block_bytes();
    if (offset >= set.object_bytes) return;
    use(stripe.block(i).first(std::min<std::uint64_t>(set.block_bytes(), set.object_bytes - offset)), offset);
  }
}

/// Writes the headers of a shard.
void write_headers(NewFile& file, const SetHeader& set, unsigned shard);

/// The name with something behind it, cut so that a file can have it.
std::string with_suffix(const std::string& name, const std::string& suffix);
/// "NAME.007.ec"
std::string shard_name(const std::string& name, unsigned shard);

/// What is known of a set, for --json and for people.
nlohmann::json describe(const ShardSet& set);
std::string text_of(const ShardSet& set);
std::string text_of(const SetHeader& header);

/// Reads blocks of a stripe. Any number of threads may use one, each with a stripe of its own.
class StripeReader {
 public:
  /// Throws Failure if the library does not code the shape.
  explicit StripeReader(const ShardSet& set);

  /// Reads the stripe in all files; returns how many of its blocks are lost.
  unsigned count_lost(const Stripe& stripe);
  /// For use when count_lost was called for every stripe: those whose data is in kept files, and has neither
  /// sums nor the right digests.
  std::uint64_t unproven_stripes() const;

  enum class Result { sound, made_anew, lost };
  /// Brings these shards' records into the stripe; lost ones are made from the others. Adds to digests, by
  /// shard.
  Result load(const Stripe& stripe, const std::vector<unsigned>& wanted);

  /// What load has added for that shard, over all stripes, equals the header's.
  bool is_as_coded(unsigned shard) const { return digests_[shard] == set_.header.digests[shard]; }

 private:
  class Blocks;

  const ShardSet& set_;
  const Codec codec_;
  std::mutex mutex_;
  std::vector<Checksum> digests_;
  std::uint64_t without_sums_ = 0;
};

/// The library's codec of that shape. Throws Failure with its sentence.
Codec make_codec(unsigned k, unsigned m, Technique technique);
/// Throws Failure if there is an error.
void check(const Error& error);

}  // namespace ec::file
