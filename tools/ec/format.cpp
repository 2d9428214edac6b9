#include "tools/ec/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#if defined(__x86_64__)
// The same functions by the best instructions of the processor.
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace ec::file {
namespace {

constexpr std::array<std::uint8_t, 8> magic{0x89, 'e', 'c', 's', '\r', '\n', 0x1a, '\n'};
constexpr std::uint32_t version = 1;

/// How a header begins, as it lies in the file. Digests and file entries follow.
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
  std::uint32_t record_bytes;
  std::uint32_t files;
  std::uint64_t object_bytes;
  std::uint64_t zero;
};
static_assert(sizeof(Beginning) == 64 && std::endian::native == std::endian::little);

constexpr std::size_t file_entry_bytes = 8 + 2;  // and the name

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

Checksum checksum(const void* bytes, std::size_t size, std::uint64_t seed) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_withSeed(bytes, size, seed));
  return std::bit_cast<Checksum>(canonical);
}

}  // namespace

std::size_t SetHeader::header_bytes() const {
  std::size_t bytes = sizeof(Beginning) + checksum_bytes * shards() + checksum_bytes;
  for (const auto& file : files) bytes += file_entry_bytes + file.name.size();
  return (bytes + header_unit - 1) / header_unit * header_unit;
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

std::string why_not(const SetHeader& set) {
  if (set.k < 2 || set.m < 1 || set.k + set.m > 255)
    return fmt::format("k={} and m={}: k must be at least 2, m at least 1, k+m at most 255", set.k, set.m);
  if (set.technique > Technique::cauchy) return "unknown technique";
  if (!std::has_single_bit(set.record_bytes) || set.record_bytes < least_record_bytes ||
      set.record_bytes > most_record_bytes || set.record_bytes <= set.sums_bytes() + checksum_bytes)
    return fmt::format("records of {} bytes", set.record_bytes);
  if (set.digests.size() != set.shards()) return "not a digest for each shard";
  if (set.files.empty()) return "no file";
  if (set.header_bytes() > most_header_bytes)
    return fmt::format("{} files are too many names for a header; pack them with tar", set.files.size());
  std::set<std::string_view> names;
  std::uint64_t bytes = 0;
  for (const auto& file : set.files) {
    if (!is_file_name(file.name)) return "a name that is none of a file";
    if (!names.insert(file.name).second) return fmt::format("two files are named {}", file.name);
    if (file.bytes > most_object_bytes - bytes) return "more than 2^60 bytes";
    bytes += file.bytes;
  }
  if (bytes != set.object_bytes) return "the lengths of the files are not that of the object";
  return {};
}

std::string write_header(const ShardHeader& header) {
  const SetHeader& set = header.set;
  std::string text;
  append(text, Beginning{.magic = magic,
                         .version = version,
                         .header_bytes = static_cast<std::uint32_t>(set.header_bytes()),
                         .uuid = set.uuid,
                         .k = static_cast<std::uint16_t>(set.k),
                         .m = static_cast<std::uint16_t>(set.m),
                         .shard = static_cast<std::uint16_t>(header.shard),
                         .technique = static_cast<std::uint8_t>(set.technique),
                         .keeps_files = set.keeps_files,
                         .record_bytes = set.record_bytes,
                         .files = static_cast<std::uint32_t>(set.files.size()),
                         .object_bytes = set.object_bytes,
                         .zero = 0});
  for (const auto& digest : set.digests) append(text, digest);
  for (const auto& file : set.files) {
    append(text, file.bytes);
    append(text, static_cast<std::uint16_t>(file.name.size()));
    text += file.name;
  }
  text.resize(set.header_bytes() - checksum_bytes);
  append(text, checksum(text.data(), text.size(), 0));
  return text;
}

std::optional<ShardHeader> parse_header(std::string_view bytes) {
  std::string_view rest = bytes;
  const auto beginning = take<Beginning>(rest);
  const std::size_t length = beginning.header_bytes;
  if (beginning.magic != magic || beginning.version != version) return {};
  if (length > bytes.size() || length < header_unit || length > most_header_bytes) return {};
  bytes = bytes.substr(0, length);
  std::string_view sum = bytes.substr(length - checksum_bytes);
  if (take<Checksum>(sum) != checksum(bytes.data(), length - checksum_bytes, 0)) return {};
  // Numbers are checked before anything is made of them.
  if (beginning.k + beginning.m > 255 || beginning.shard >= beginning.k + beginning.m) return {};
  if (beginning.technique > 1 || beginning.keeps_files > 1 || beginning.files > length / file_entry_bytes)
    return {};

  ShardHeader header{{.uuid = beginning.uuid,
                      .k = beginning.k,
                      .m = beginning.m,
                      .technique = static_cast<Technique>(beginning.technique),
                      .keeps_files = beginning.keeps_files == 1,
                      .record_bytes = beginning.record_bytes,
                      .object_bytes = beginning.object_bytes,
                      .files = {},
                      .digests = {}},
                     beginning.shard};
  for (unsigned i = 0; i < header.set.shards(); ++i) header.set.digests.push_back(take<Checksum>(rest));
  for (std::uint32_t i = 0; i < beginning.files; ++i) {
    const auto file_bytes = take<std::uint64_t>(rest);
    const auto name_bytes = take<std::uint16_t>(rest);
    const auto name = rest.substr(0, name_bytes);
    rest.remove_prefix(name.size());
    header.set.files.push_back({std::string(name), file_bytes});
  }
  // Whatever else could be wrong is not as it would be written.
  if (!why_not(header.set).empty() || write_header(header) != bytes) return {};
  return header;
}

std::optional<ShardHeader> parse_last_header(std::string_view bytes) {
  for (std::size_t length = header_unit; length <= std::min(bytes.size(), most_header_bytes);
       length += header_unit)
    if (auto header = parse_header(bytes.substr(bytes.size() - length));
        header && header->set.header_bytes() == length)
      return header;
  return {};
}

Checksum block_checksum(std::span<const std::byte> block, const Uuid& uuid, unsigned shard,
                        std::uint64_t stripe) {
  std::string place;
  append(place, uuid);
  append(place, std::uint32_t{shard});
  append(place, stripe);
  return checksum(block.data(), block.size(), XXH3_64bits(place.data(), place.size()));
}

void add_to(Checksum& digest, const Checksum& checksum) {
  for (std::size_t i = 0; i < digest.size(); ++i) digest[i] ^= checksum[i];
}

std::string text_of(const Uuid& uuid) {
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
  return text;
}

std::string id_of(const SetHeader& set) {
  const std::string header = write_header({set, 0});
  std::string_view sum = std::string_view(header).substr(header.size() - checksum_bytes);
  return fmt::format("{}.{:08x}", text_of(set.uuid), take<std::uint32_t>(sum));
}

std::string_view name_of(Technique technique) {
  return technique == Technique::cauchy ? "cauchy" : "reed_sol_van";
}

}  // namespace ec::file
