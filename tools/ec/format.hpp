// The format of shard files: headers and checksums (docs/format.md).
#pragma once

#include <array>
#include <boost/uuid/uuid.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ec/codec.hpp"

namespace ec::file {

inline constexpr std::size_t checksum_bytes = 16;
inline constexpr std::size_t header_unit = 4096;
inline constexpr std::size_t most_header_bytes = 1 << 20;
inline constexpr std::size_t most_header_bytes_2 = 1 << 26;  ///< version 2
inline constexpr std::uint32_t least_block_bytes_2 = 512;
inline constexpr std::uint32_t most_block_bytes_2 = 65536;
inline constexpr std::size_t sum_bytes_2 = checksum_bytes + 4;  ///< of a data block in a record
inline constexpr std::uint32_t least_record_bytes = 4096;
inline constexpr std::uint32_t most_record_bytes = 1 << 20;
inline constexpr std::uint64_t most_object_bytes = std::uint64_t{1} << 60;

using Uuid = boost::uuids::uuid;
using Checksum = std::array<std::uint8_t, checksum_bytes>;

struct FileEntry {
  std::string name;  ///< of a file, no path; version 2: a path
  std::uint64_t bytes = 0;
  // Version 2 alone.
  bool is_directory = false;
  std::uint16_t mode = 0;
  std::int64_t seconds = 0;  ///< of the file's last change
  std::uint32_t nanoseconds = 0;
  Checksum digest{};
  bool operator==(const FileEntry&) const = default;
};

/// What the headers of all shards of a set say.
struct SetHeader {
  unsigned version = 1;  ///< 2: files kept by slices
  Uuid uuid{};
  unsigned k = 0;
  unsigned m = 0;
  Technique technique = Technique::cauchy;
  bool keeps_files = false;  ///< only coding shards have shard files: the files are the data shards
  std::uint32_t record_bytes = 0;
  std::uint64_t object_bytes = 0;
  std::vector<FileEntry> files;
  std::vector<Checksum> digests;  ///< of each shard; version 2: of each that has a file
  // Version 2 alone.
  std::string set_name;
  std::uint64_t columns = 0;

  bool operator==(const SetHeader&) const = default;

  /// Shard files are named so.
  const std::string& name() const { return version == 1 ? files.front().name : set_name; }
  unsigned shards() const { return k + m; }
  /// The number of the first shard that has a shard file.
  unsigned first_shard_file() const { return keeps_files ? k : 0; }
  /// The checksums of the data in a record, where the data has no records.
  std::size_t sums_bytes() const {
    return keeps_files ? k * (version == 1 ? checksum_bytes : sum_bytes_2) : 0;
  }
  std::size_t block_bytes() const { return record_bytes - sums_bytes() - checksum_bytes; }
  std::uint64_t stripe_bytes() const { return std::uint64_t{k} * block_bytes(); }
  /// Version 2: columns.
  std::uint64_t stripes() const {
    return version == 1 ? (object_bytes + stripe_bytes() - 1) / stripe_bytes() : columns;
  }
  std::size_t header_bytes() const;
  std::uint64_t record_at(std::uint64_t stripe) const { return header_bytes() + stripe * record_bytes; }
  std::uint64_t shard_file_bytes() const { return record_at(stripes()) + header_bytes(); }
};

struct ShardHeader {
  SetHeader set;
  unsigned shard = 0;
  bool operator==(const ShardHeader&) const = default;
};

/// Of 1 to 255 bytes, and no path.
bool is_file_name(std::string_view name);

/// Names of 1 to 255 bytes with slashes between them, 4095 bytes at most, none of them "." or "..".
bool is_inner_path(std::string_view path);

/// Empty if the set may be written, else what is wrong with it. Shapes that a technique does not take are for
/// Codec::create to refuse.
std::string why_not(const SetHeader& set);

/// The header of a shard, set.header_bytes() long. The set is one that may be written.
std::string write_header(const ShardHeader& header);

/// The header at the beginning of `bytes`, which may be longer. None unless it is whole and what write_header
/// would write.
std::optional<ShardHeader> parse_header(std::string_view bytes);

/// The header whose end is the end of `bytes`.
std::optional<ShardHeader> parse_last_header(std::string_view bytes);

/// How long a header says it is by its first header_unit bytes, or by its last last_words_bytes if it is of
/// version 2; 0 if that cannot be.
std::size_t claimed_header_bytes(std::string_view front);
std::size_t claimed_last_header_bytes(std::string_view last_words);
inline constexpr std::size_t last_words_bytes = 4 + checksum_bytes;

/// Version 2: the checksum of the used bytes of a data block, or of a file shorter than a block.
Checksum plain_checksum(std::span<const std::byte> bytes);
/// CRC-32C that begins with 0 and is not inverted, so that it rolls.
std::uint32_t crc_of(std::span<const std::byte> bytes);
/// The checksum of what is in front of it in the record of a shard in a stripe: `sums` are none, or not
/// behind the block in memory.
Checksum record_checksum(std::span<const std::byte> block, std::span<const std::byte> sums, const Uuid& uuid,
                         unsigned shard, std::uint64_t stripe);

/// Brings a digest up to date by the checksum of one more block.
void add_to(Checksum& digest, const Checksum& checksum);

/// The UUID and what tells sets of one UUID apart.
std::string id_of(const SetHeader& set);
std::string_view name_of(Technique technique);

}  // namespace ec::file
