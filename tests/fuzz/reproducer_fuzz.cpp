// Files of reproducers: refused with a reason, or consistent, and the same when written and read again.
#include "plugin/codec/checking/reproducer.hpp"

#include <string>

#include "tests/fuzz/fuzz.hpp"

namespace {

void check(const std::string& file) {
  using namespace ec::fuzz;
  namespace codec = ec::codec;
  std::string why;
  const auto parsed = codec::parse_reproducer(file, &why);
  expect(parsed.has_value() == why.empty(), "a reason or a reproducer");
  expect(why.find('\n') == std::string::npos, "a reason of one line");
  if (!parsed) return;
  const auto& h = parsed->head;
  expect(h.block_bytes <= codec::longest_block(h.targets), "a block of {} bytes is refused", h.block_bytes);
  expect(h.block_offset <= h.chunk_bytes && h.block_bytes <= h.chunk_bytes - h.block_offset,
         "a block inside its chunk");
  const auto matrix = parsed->matrix();
  expect(matrix.rows() == h.targets && matrix.cols() == h.sources, "a matrix of the chunks");
  // The last of the blocks ends where the file does, and no two of them overlap.
  const auto last = parsed->block(codec::Reproducer::expected, h.targets - 1);
  expect(last.size() == h.block_bytes && reinterpret_cast<const char*>(last.data() + last.size()) ==
                                             parsed->behind.data() + parsed->behind.size(),
         "blocks to the end");
  expect(parsed->block(codec::Reproducer::got, 0).data() + std::size_t{h.targets} * h.block_bytes ==
             parsed->block(codec::Reproducer::expected, 0).data(),
         "blocks side by side");
  expect(codec::parse_reproducer(to_file(*parsed), &why) == parsed, "what is written is read: {}", why);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ec::fuzz::Input input(data, size);
  if (input.ConsumeBool()) {
    check(input.ConsumeRemainingBytesAsString());
    return 0;
  }
  // A head of any numbers, with as many bytes behind it as it asks for, or nearly.
  ec::codec::Reproducer r;
  r.head.verb = input.ConsumeIntegralInRange(0, 2);
  r.head.sources = input.ConsumeIntegralInRange(0, 256);
  r.head.targets = input.ConsumeIntegralInRange(0, 256);
  r.head.block_bytes = input.ConsumeIntegralInRange(0, 5000);
  r.head.chunk_bytes = input.ConsumeIntegralInRange<std::uint64_t>(0, std::uint64_t{1} << 33);
  r.head.block_offset = input.ConsumeIntegralInRange<std::uint64_t>(0, r.head.chunk_bytes);
  r.head.stripes = input.ConsumeIntegral<std::uint64_t>();
  const std::size_t bytes =
      4 * (r.head.sources + r.head.targets) + r.head.sources * r.head.targets +
      std::size_t{r.head.block_bytes} * (r.head.sources + (r.head.verb == 1 ? 3 : 2) * r.head.targets) +
      input.ConsumeIntegralInRange<std::size_t>(0, 1);
  std::string file = to_file(r) + input.ConsumeRemainingBytesAsString();
  file.resize(sizeof r.head + bytes);
  check(file);
  return 0;
}
