#include "tools/ec/format.hpp"

#include <fmt/format.h>
#include <isa-l/crc.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <new>
#if defined(__x86_64__)
// The same functions by the best instructions of the processor.
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include "tools/ec/layout.hpp"

namespace ec::file {
namespace {

constexpr std::array<std::uint8_t, 8> magic{0x89, 'e', 'c', 's', '\r', '\n', 0x1a, '\n'};
/// How a header begins, as it lies in the file. Digests and file entries follow, in version 2 with the name
/// of the set between them.
struct Beginning {
  std::array<std::uint8_t, 8> magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  Uuid uuid;
  std::uint16_t k;
  std::uint16_t m;
  std::uint16_t shard;
  std::uint8_t technique;
  std::uint8_t keeps_files;
  std::uint32_t record_bytes;  ///< version 2: of a block
  std::uint32_t files;
  std::uint64_t object_bytes;
  std::uint64_t columns;  ///< version 1: 0
};
static_assert(sizeof(Beginning) == 64 && std::endian::native == std::endian::little);

template <class Part>
void append(std::string& text, const Part& part) {
  text.append(reinterpret_cast<const char*>(&part), sizeof(part));
}

/// Takes a part off the front; what is not there reads as zeros.
template <class Part>
Part take(std::string_view& text) {
  Part part{};
  const auto bytes = std::min(text.size(), sizeof(part));
  std::memcpy(&part, text.data(), bytes);
  text.remove_prefix(bytes);
  return part;
}

/// What follows the beginning of a header, to be written or read: numbers and digests are for `part`, names
/// for `length`, and where they stand for `name`. The set has as many digests and files as there are.
template <class Set, class Part, class Length, class Name>
void for_each_part(Set& set, Part part, Length length, Name name) {
  for (auto& digest : set.digests) part(digest);
  if (set.version != 1) {
    length(set.set_name);
    name(set.set_name);
  }
  for (auto& file : set.files) {
    if (set.version == 1) {
      part(file.bytes);
      length(file.name);
    } else {
      part(file.is_directory);
      part(file.mode);
      length(file.name);
      part(file.bytes);
      part(file.seconds);
      part(file.nanoseconds);
      part(file.digest);
    }
    name(file.name);
  }
}

Checksum canonical(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return std::bit_cast<Checksum>(canonical);
}

Checksum checksum(const void* bytes, std::size_t size, std::uint64_t seed) {
  return canonical(XXH3_128bits_withSeed(bytes, size, seed));
}

std::uint64_t seed_of(const Uuid& uuid, unsigned shard, std::uint64_t stripe) {
  std::string place;
  append(place, uuid);
  append(place, std::uint32_t{shard});
  append(place, stripe);
  return XXH3_64bits(place.data(), place.size());
}

/// Of an entry without its name.
std::size_t entry_bytes(unsigned version) {
  return version == 1 ? 8 + 2 : 1 + 2 + 2 + 8 + 8 + 4 + checksum_bytes;
}

std::size_t most_bytes(unsigned version) { return version == 1 ? most_header_bytes : most_header_bytes_2; }

/// The length of a header of that version, or 0 if that cannot be.
std::size_t possible(std::size_t length, unsigned version) {
  return length < header_unit || length % header_unit != 0 || length > most_bytes(version) ? 0 : length;
}

/// What is wrong with the names: they are paths, all different, and no file is a directory of another one.
std::string why_not_paths(const SetHeader& set) {
  std::vector<const FileEntry*> sorted;
  for (const auto& file : set.files) {
    if (!is_inner_path(file.name)) return "a name that is no path in a tree";
    sorted.push_back(&file);
  }
  // By this order all that is in a directory comes right behind the directory.
  const auto rank = [](char c) { return c == '/' ? 0 : static_cast<unsigned char>(c); };
  const auto is_before = [&](const FileEntry* a, const FileEntry* b) {
    return std::ranges::lexicographical_compare(a->name, b->name, {}, rank, rank);
  };
  std::ranges::sort(sorted, is_before);
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const FileEntry &file = *sorted[i - 1], &next = *sorted[i];
    if (file.name == next.name) return fmt::format("two files are named {}", file.name);
    if (!file.is_directory && next.name.starts_with(file.name + "/"))
      return fmt::format("{} is in a file", next.name);
  }
  return {};
}

/// What is wrong with what version 2 alone has.
std::string why_not_slices(const SetHeader& set) {
  const auto block = static_cast<std::uint32_t>(set.block_bytes());
  if (!set.keeps_files) return "it keeps no files";
  if (!std::has_single_bit(block) || block < least_block_bytes_2 || block > most_block_bytes_2)
    return fmt::format("blocks of {} bytes", block);
  if (set.digests.size() != set.m) return "not a digest for each shard";
  if (!is_file_name(set.set_name)) return "a name of the set that is none of a file";
  for (const auto& file : set.files)
    if (file.nanoseconds >= 1000000000 || file.mode > 07777 ||
        (file.is_directory && (file.bytes > 0 || file.digest != Checksum{})))
      return "an entry that cannot be";
  if (std::string why = why_not_paths(set); !why.empty()) return why;
  if (set.columns != columns_of(Layout(set.files, block), set.k)) return "not as many columns as it needs";
  return {};
}

}  // namespace

std::size_t SetHeader::header_bytes() const {
  std::size_t bytes = sizeof(Beginning) + checksum_bytes * digests.size() + checksum_bytes;
  if (version != 1) bytes += 2 + set_name.size() + 4;
  for (const auto& file : files) bytes += entry_bytes(version) + file.name.size();
  return (bytes + header_unit - 1) / header_unit * header_unit;
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

bool is_inner_path(std::string_view path) {
  if (path.size() > 4095) return false;
  for (;;) {
    const auto slash = path.find('/');
    if (!is_file_name(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

std::string why_not(const SetHeader& set) {
  if (set.k < 2 || set.m < 1 || set.k + set.m > 255)
    return fmt::format("k={} and m={}: k must be at least 2, m at least 1, k+m at most 255", set.k, set.m);
  if (set.technique > Technique::cauchy) return "unknown technique";
  if (set.files.empty()) return "no file";
  if (set.header_bytes() > most_bytes(set.version))
    return fmt::format("{} files are too many names for a header; pack them with tar", set.files.size());
  std::uint64_t bytes = 0;
  for (const auto& file : set.files) {
    if (file.bytes > most_object_bytes - bytes) return "more than 2^60 bytes";
    bytes += file.bytes;
  }
  if (bytes != set.object_bytes) return "the lengths of the files do not add up to the length of the object";
  if (set.version != 1) return why_not_slices(set);
  if (!std::has_single_bit(set.record_bytes) || set.record_bytes < least_record_bytes ||
      set.record_bytes > most_record_bytes || set.record_bytes <= set.sums_bytes() + checksum_bytes)
    return fmt::format("records of {} bytes", set.record_bytes);
  if (set.digests.size() != set.shards()) return "not a digest for each shard";
  for (const auto& file : set.files)
    if (!is_file_name(file.name)) return "a name that is none of a file";
  return why_not_paths(set);
}

std::string write_header(const ShardHeader& header) {
  const SetHeader& set = header.set;
  std::string text;
  append(text, Beginning{.magic = magic,
                         .version = set.version,
                         .header_bytes = static_cast<std::uint32_t>(set.header_bytes()),
                         .uuid = set.uuid,
                         .k = static_cast<std::uint16_t>(set.k),
                         .m = static_cast<std::uint16_t>(set.m),
                         .shard = static_cast<std::uint16_t>(header.shard),
                         .technique = static_cast<std::uint8_t>(set.technique),
                         .keeps_files = set.keeps_files,
                         .record_bytes = set.version == 1 ? set.record_bytes
                                                          : static_cast<std::uint32_t>(set.block_bytes()),
                         .files = static_cast<std::uint32_t>(set.files.size()),
                         .object_bytes = set.object_bytes,
                         .columns = set.columns});
  for_each_part(
      set, [&](const auto& part) { append(text, part); },
      [&](const std::string& name) { append(text, static_cast<std::uint16_t>(name.size())); },
      [&](const std::string& name) { text += name; });
  text.resize(set.header_bytes() - checksum_bytes);
  if (set.version != 1) {
    text.resize(text.size() - 4);
    append(text, static_cast<std::uint32_t>(set.header_bytes()));
  }
  append(text, checksum(text.data(), text.size(), 0));
  return text;
}

std::size_t claimed_header_bytes(std::string_view front) {
  const auto beginning = take<Beginning>(front);
  if (beginning.magic != magic || (beginning.version != 1 && beginning.version != 2)) return 0;
  return possible(beginning.header_bytes, beginning.version);
}

std::size_t claimed_last_header_bytes(std::string_view last_words) {
  return possible(take<std::uint32_t>(last_words), 2);
}

std::optional<ShardHeader> parse_header(std::string_view bytes) {
  const std::size_t length = claimed_header_bytes(bytes);
  if (length == 0 || length > bytes.size()) return {};
  bytes = bytes.substr(0, length);
  std::string_view rest = bytes, sum = bytes.substr(length - checksum_bytes);
  const auto beginning = take<Beginning>(rest);
  if (take<Checksum>(sum) != checksum(bytes.data(), length - checksum_bytes, 0)) return {};
  // Numbers are checked before anything is made of them.
  if (beginning.k + beginning.m > 255 || beginning.shard >= beginning.k + beginning.m) return {};
  if (beginning.technique > 1 || beginning.keeps_files > 1 ||
      beginning.files > length / entry_bytes(beginning.version))
    return {};

  ShardHeader header;
  header.shard = beginning.shard;
  SetHeader& set = header.set;
  set.version = beginning.version;
  set.uuid = beginning.uuid;
  set.k = beginning.k;
  set.m = beginning.m;
  set.technique = static_cast<Technique>(beginning.technique);
  set.keeps_files = beginning.keeps_files == 1;
  set.record_bytes = beginning.record_bytes;
  set.object_bytes = beginning.object_bytes;
  if (set.version != 1) {
    if (beginning.record_bytes > most_block_bytes_2 || header.shard < set.k) return {};
    set.record_bytes += static_cast<std::uint32_t>(set.sums_bytes() + checksum_bytes);
    set.columns = beginning.columns;
  }
  set.digests.resize(set.version == 1 ? set.shards() : set.m);
  set.files.resize(beginning.files);
  for_each_part(
      set,
      [&]<class Part>(Part& part) {
        if constexpr (std::is_same_v<Part, bool>)
          part = take<std::uint8_t>(rest) == 1;
        else
          part = take<Part>(rest);
      },
      [&](std::string& name) { name.resize(std::min<std::size_t>(take<std::uint16_t>(rest), rest.size())); },
      [&](std::string& name) {
        name = rest.substr(0, name.size());
        rest.remove_prefix(name.size());
      });
  // Whatever else could be wrong is not as it would be written.
  if (!why_not(set).empty() || write_header(header) != bytes) return {};
  return header;
}

std::optional<ShardHeader> parse_last_header(std::string_view bytes) {
  if (bytes.size() < header_unit) return {};
  const auto with_length = [&](std::size_t length) -> std::optional<ShardHeader> {
    if (length == 0 || length > bytes.size()) return {};
    const auto last = bytes.substr(bytes.size() - length);
    return claimed_header_bytes(last) == length ? parse_header(last) : std::nullopt;
  };
  if (auto header = with_length(claimed_last_header_bytes(bytes.substr(bytes.size() - last_words_bytes))))
    return header;
  for (std::size_t length = header_unit; length <= std::min(bytes.size(), most_header_bytes);
       length += header_unit)
    if (auto header = with_length(length)) return header;
  return {};
}

Checksum plain_checksum(std::span<const std::byte> bytes) { return checksum(bytes.data(), bytes.size(), 0); }

std::uint32_t crc_of(std::span<const std::byte> bytes) {
  // crc32_iscsi only reads, but its pointer is one to bytes that could be written.
  auto* const begin = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));  // NOLINT
  return bytes.empty() ? 0 : crc32_iscsi(begin, static_cast<int>(bytes.size()), 0);
}

Checksum record_checksum(std::span<const std::byte> block, std::span<const std::byte> sums, const Uuid& uuid,
                         unsigned shard, std::uint64_t stripe) {
  if (sums.empty()) return checksum(block.data(), block.size(), seed_of(uuid, shard, stripe));
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_128bits_reset_withSeed(state.get(), seed_of(uuid, shard, stripe));
  XXH3_128bits_update(state.get(), block.data(), block.size());
  XXH3_128bits_update(state.get(), sums.data(), sums.size());
  return canonical(XXH3_128bits_digest(state.get()));
}

void add_to(Checksum& digest, const Checksum& checksum) {
  for (std::size_t i = 0; i < digest.size(); ++i) digest[i] ^= checksum[i];
}

std::string id_of(const SetHeader& set) {
  const std::string header = write_header({set, 0});
  std::string_view sum = std::string_view(header).substr(header.size() - checksum_bytes);
  return fmt::format("{}.{:08x}", to_string(set.uuid), take<std::uint32_t>(sum));
}

std::string_view name_of(Technique technique) {
  return technique == Technique::cauchy ? "cauchy" : "reed_sol_van";
}

}  // namespace ec::file
