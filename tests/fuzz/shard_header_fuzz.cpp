// Headers of shard files of both versions: any bytes between a right beginning and a right end. What is taken
// is what the format allows, is written again as it was, and leads to no path out of the set's tree and to no
// length that overflows. Any one bit more makes it none.
#include <xxhash.h>

#include <string>

#include "tests/fuzz/fuzz.hpp"
#include "tools/ec/format.hpp"

namespace ec::fuzz {
namespace {

using namespace ec::file;

/// Behind magic, version and length.
constexpr std::size_t free_at = 16;

void append_number(std::string& text, std::uint32_t number) {
  for (unsigned i = 0; i < 4; ++i) text.push_back(static_cast<char>(number >> 8 * i));
}

std::string header_of(std::string_view content, unsigned version) {
  const std::size_t end_bytes = version == 1 ? checksum_bytes : last_words_bytes;
  const std::size_t units = (free_at + content.size() + end_bytes + header_unit - 1) / header_unit;
  const auto length = static_cast<std::uint32_t>(units * header_unit);
  std::string text(
      "\x89"
      "ecs\r\n\x1a\n");
  append_number(text, version);
  append_number(text, length);
  text += content;
  text.resize(length - end_bytes);
  if (version != 1) append_number(text, length);
  XXH128_canonical_t sum;
  XXH128_canonicalFromHash(&sum, XXH3_128bits(text.data(), text.size()));
  return text.append(reinterpret_cast<const char*>(sum.digest), sizeof(sum.digest));
}

void check(const ShardHeader& header, const std::string& text, unsigned version) {
  const SetHeader& set = header.set;
  expect(set.version == version && write_header(header) == text, "written as it was");
  expect(set.k >= 2 && set.m >= 1 && set.k + set.m <= 255 && header.shard < set.k + set.m, "a shape");
  expect(version == 1 || (set.keeps_files && header.shard >= set.k), "a shard that has a file");
  const std::size_t sized = version == 1 ? set.record_bytes : set.block_bytes();
  expect(sized >= (version == 1 ? 4096 : 512) && sized <= (version == 1 ? 1 << 20 : 1 << 16), "a record");
  expect(set.digests.size() == set.m + (version == 1 ? set.k : 0) && !set.files.empty(), "digests and files");
  std::uint64_t bytes = 0;
  for (const auto& file : set.files) {
    const std::string path = "/" + file.name + "/";
    for (const auto* wrong : {"//", "/./", "/../"})
      expect(path.find(wrong) == std::string::npos, "names in {}", path);
    expect(file.name.find_first_of(std::string_view("\0/", version == 1 ? 2 : 1)) == std::string::npos,
           "no path");
    bytes += file.bytes;
  }
  expect(bytes == set.object_bytes && bytes <= most_object_bytes, "lengths that add up");
  expect(set.stripes() * set.stripe_bytes() >= bytes, "stripes hold the object");
  expect(set.shard_file_bytes() < std::uint64_t{1} << 62, "files that can be");
}

}  // namespace
}  // namespace ec::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ec::fuzz;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  (void)parse_header(content);
  (void)parse_last_header(content);
  for (const unsigned version : {1, 2}) {
    std::string text = header_of(content, version);
    const auto header = parse_header(text);
    if (!header) continue;
    check(*header, text, version);
    expect(parse_last_header("in front" + text) == header, "the same as the last");
    const auto bit = size == 0 ? 0 : (data[0] * 131 + data[size - 1] * 7919) % (8 * text.size());
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    expect(!parse_header(text), "none with bit {} changed", bit);
  }
  return 0;
}
