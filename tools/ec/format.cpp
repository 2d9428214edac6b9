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

constexpr std::string_view magic =
    "\x89"
    "ecs\r\n\x1a\n";  // clang-format: one literal would be \x89e
constexpr std::uint32_t version = 1;
constexpr std::size_t digests_at = 64;
constexpr std::size_t file_entry_bytes = 8 + 2;  // and the name

template <class Number>
void append(std::string& text, Number number) {
  for (unsigned i = 0; i < sizeof(Number); ++i)
    text.push_back(static_cast<char>(static_cast<std::uint64_t>(number) >> 8 * i));
}

/// Takes numbers and texts off the front; what is not there reads as zeros, and `is_short` says so.
class Parser {
 public:
  explicit Parser(std::string_view bytes) : rest_(bytes) {}
  bool is_short = false;

  std::string_view text(std::size_t bytes) {
    if (rest_.size() < bytes) {
      is_short = true;
      return {};
    }
    const auto taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  template <class Number>
  Number number() {
    std::uint64_t value = 0;
    const auto bytes = text(sizeof(Number));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      value |= std::uint64_t{static_cast<std::uint8_t>(bytes[i])} << 8 * i;
    return static_cast<Number>(value);
  }
  template <class Array>
  Array array() {
    Array value{};
    const auto bytes = text(value.size());
    std::ranges::copy(bytes, value.begin());
    return value;
  }

 private:
  std::string_view rest_;
};

Checksum checksum(const void* bytes, std::size_t size, std::uint64_t seed) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_withSeed(bytes, size, seed));
  return std::bit_cast<Checksum>(canonical);
}

}  // namespace

std::size_t SetHeader::header_bytes() const {
  std::size_t bytes = digests_at + checksum_bytes * shards() + checksum_bytes;
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
      set.record_bytes > most_record_bytes)
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
  std::string text(magic);
  append(text, version);
  append(text, static_cast<std::uint32_t>(set.header_bytes()));
  text.append(set.uuid.begin(), set.uuid.end());
  append(text, static_cast<std::uint16_t>(set.k));
  append(text, static_cast<std::uint16_t>(set.m));
  append(text, static_cast<std::uint16_t>(header.shard));
  append(text, static_cast<std::uint16_t>(set.technique));
  append(text, set.record_bytes);
  append(text, static_cast<std::uint32_t>(set.files.size()));
  append(text, set.object_bytes);
  text.resize(digests_at);
  for (const auto& digest : set.digests) text.append(digest.begin(), digest.end());
  for (const auto& file : set.files) {
    append(text, file.bytes);
    append(text, static_cast<std::uint16_t>(file.name.size()));
    text += file.name;
  }
  text.resize(set.header_bytes() - checksum_bytes);
  const Checksum sum = checksum(text.data(), text.size(), 0);
  return text.append(sum.begin(), sum.end());
}

std::optional<ShardHeader> parse_header(std::string_view bytes) {
  Parser parser(bytes);
  ShardHeader header;
  SetHeader& set = header.set;
  if (parser.text(magic.size()) != magic || parser.number<std::uint32_t>() != version) return {};
  const auto header_bytes = parser.number<std::uint32_t>();
  if (header_bytes > bytes.size() || header_bytes < header_unit || header_bytes > most_header_bytes)
    return {};
  const auto summed = bytes.substr(0, header_bytes - checksum_bytes);
  const Checksum sum = checksum(summed.data(), summed.size(), 0);
  if (std::memcmp(sum.data(), bytes.data() + summed.size(), sum.size()) != 0) return {};

  set.uuid = parser.array<Uuid>();
  set.k = parser.number<std::uint16_t>();
  set.m = parser.number<std::uint16_t>();
  header.shard = parser.number<std::uint16_t>();
  const auto technique = parser.number<std::uint16_t>();
  set.record_bytes = parser.number<std::uint32_t>();
  const auto files = parser.number<std::uint32_t>();
  set.object_bytes = parser.number<std::uint64_t>();
  parser.number<std::uint64_t>();
  // Numbers are checked before anything is made of them.
  if (technique > 1 || set.shards() > 255 || header.shard >= set.shards()) return {};
  if (files > most_header_bytes / file_entry_bytes) return {};
  set.technique = static_cast<Technique>(technique);
  for (unsigned i = 0; i < set.shards(); ++i) set.digests.push_back(parser.array<Checksum>());
  for (std::uint32_t i = 0; i < files && !parser.is_short; ++i) {
    const auto file_bytes = parser.number<std::uint64_t>();
    const auto name_bytes = parser.number<std::uint16_t>();
    set.files.push_back({std::string(parser.text(name_bytes)), file_bytes});
  }
  if (parser.is_short || !why_not(set).empty()) return {};
  if (write_header(header) != bytes.substr(0, header_bytes)) return {};
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
  std::array<std::uint8_t, sizeof(Uuid) + 4 + 8> place{};
  std::ranges::copy(uuid, place.begin());
  for (unsigned i = 0; i < 4; ++i) place[16 + i] = static_cast<std::uint8_t>(shard >> 8 * i);
  for (unsigned i = 0; i < 8; ++i) place[20 + i] = static_cast<std::uint8_t>(stripe >> 8 * i);
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

std::string_view name_of(Technique technique) {
  return technique == Technique::cauchy ? "cauchy" : "reed_sol_van";
}

}  // namespace ec::file
