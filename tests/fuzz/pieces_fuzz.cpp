// Walking over bufferlists in pieces: nothing is lost, doubled or out of order, whatever the pieces are.
#include <string>
#include <vector>

#include "plugin/ceph/chunk_buffers.hpp"
#include "tests/fuzz/pieces.hpp"

namespace ec::fuzz {
namespace {

void check_cutter(Input& input) {
  const auto bytes = input.ConsumeIntegralInRange<std::size_t>(0, 700);
  const std::string text = content(bytes, input.ConsumeIntegral<std::uint8_t>());
  const auto list = in_pieces(input, text);
  ceph::ChunkCutter cutter(list);
  std::size_t at = 0;
  for (int i = input.ConsumeIntegralInRange(0, 12); i > 0; --i) {
    const auto size = input.ConsumeIntegralInRange(1u, 200u);
    ::ceph::bufferlist chunk;
    const auto source = cutter.next(size, chunk);
    std::string expected = text.substr(std::min(at, bytes), size);
    expected.resize(size, '\0');
    expect(
        ceph::is_one_piece(chunk) && source.data == ceph::bytes_of(chunk.front()) && flat(chunk) == expected,
        "chunk of {} bytes at {}", size, at);
    at += size;
  }
  expect(flat(list) == text, "the list as before");
}

void check_walker(Input& input) {
  // Above and below the mean piece from which a list is walked as it is.
  const auto bytes = input.ConsumeIntegralInRange<std::size_t>(0, input.ConsumeBool() ? 300 : 9000);
  std::vector<std::string> texts;
  std::vector<::ceph::bufferlist> lists;
  for (unsigned i = input.ConsumeIntegralInRange(1u, 4u); i > 0; --i) {
    texts.push_back(content(bytes, input.ConsumeIntegral<std::uint8_t>()));
    lists.push_back(in_pieces(input, texts.back()));
  }
  std::vector<const ::ceph::bufferlist*> pointers;
  for (const auto& list : lists) pointers.push_back(&list);
  ceph::SegmentWalker walker(pointers);
  std::vector<kernels::Source> sources(lists.size());
  std::size_t at = 0;
  while (const std::size_t segment = walker.next(sources)) {
    expect(at + segment <= bytes, "{} bytes and no more", bytes);
    for (std::size_t i = 0; i < texts.size(); ++i)
      expect(std::equal(sources[i].data, sources[i].data + segment,
                        reinterpret_cast<const std::uint8_t*>(texts[i].data()) + at),
             "list {} at {}", i, at);
    at += segment;
  }
  expect(at == bytes, "{} bytes and not {}", bytes, at);
  for (std::size_t i = 0; i < texts.size(); ++i) expect(flat(lists[i]) == texts[i], "list {} as before", i);
}

}  // namespace
}  // namespace ec::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ec::fuzz::Input input(data, size);
  if (input.ConsumeBool())
    ec::fuzz::check_cutter(input);
  else
    ec::fuzz::check_walker(input);
  return 0;
}
