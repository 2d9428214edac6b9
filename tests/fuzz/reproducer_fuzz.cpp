// Texts of reproducers: refused with a reason, or consistent, and the same when written and read again.
#include "plugin/codec/checking/reproducer.hpp"

#include <string>

#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ec::fuzz;
  namespace codec = ec::codec;
  std::string why;
  const auto parsed = codec::parse_reproducer({reinterpret_cast<const char*>(data), size}, &why);
  expect(parsed.has_value() == why.empty(), "a reason or a reproducer");
  expect(why.find('\n') == std::string::npos, "a reason of one line");
  if (!parsed) return 0;
  const auto& [offset, bytes] = parsed->block;
  expect(bytes <= codec::longest_block(parsed->targets.size()), "a block of {} bytes is refused", bytes);
  expect(offset <= parsed->chunk_bytes && bytes <= parsed->chunk_bytes - offset, "a block inside its chunk");
  expect(parsed->sources.size() == parsed->matrix.cols() && parsed->targets.size() == parsed->matrix.rows(),
         "chunks of the matrix");
  for (const auto& source : parsed->sources)
    expect(source.bytes.size() == bytes, "sources as long as the block");
  for (const auto& target : parsed->targets)
    expect(target.got.bytes.size() == bytes && target.expected.size() == bytes &&
               target.before.size() == (parsed->accumulate ? bytes : 0),
           "targets as long as the block");
  expect(codec::parse_reproducer(codec::to_json(*parsed), &why) == parsed, "what is written is read: {}",
         why);
  return 0;
}
