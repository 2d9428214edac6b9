// Headers of shard files: any bytes behind a right beginning, with a right checksum. What is taken is what
// the format allows, is written again as it was, and leads to no path and to no length that overflows. Any
// one bit more makes it none.
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

std::string header_of(std::string_view content) {
  std::string text(
      "\x89"
      "ecs\r\n\x1a\n");
  append_number(text, 1);
  append_number(text, header_unit);
  text += content.substr(0, header_unit - checksum_bytes - free_at);
  text.resize(header_unit - checksum_bytes);
  XXH128_canonical_t sum;
  XXH128_canonicalFromHash(&sum, XXH3_128bits(text.data(), text.size()));
  return text.append(reinterpret_cast<const char*>(sum.digest), sizeof(sum.digest));
}

void check(const ShardHeader& header, const std::string& text) {
  const SetHeader& set = header.set;
  expect(write_header(header) == text, "written as it was");
  expect(set.k >= 2 && set.m >= 1 && set.k + set.m <= 255 && header.shard < set.k + set.m, "a shape");
  expect(set.record_bytes >= 4096 && set.record_bytes <= 1 << 20, "a record");
  expect(set.digests.size() == set.k + set.m && !set.files.empty(), "digests and files");
  std::uint64_t bytes = 0;
  for (const auto& file : set.files) {
    expect(!file.name.empty() && file.name != "." && file.name != "..", "a name");
    expect(file.name.find_first_of(std::string_view("/\0", 2)) == std::string::npos, "no path");
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
  std::string text = header_of(content);
  const auto header = parse_header(text);
  if (!header) return 0;
  check(*header, text);
  expect(parse_last_header("in front" + text) == header, "the same as the last");
  const auto bit = size == 0 ? 0 : (data[0] * 131 + data[size - 1] * 7919) % (8 * text.size());
  text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
  expect(!parse_header(text), "none with bit {} changed", bit);
  return 0;
}
