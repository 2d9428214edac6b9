// Jobs of any shape, length and alignment, on every back end of this CPU, against the oracle. Chunks are
// blocks of their own, so that a byte read or written beside one is AddressSanitizer's; what lies around a
// target in its own block is compared, for kernels in assembly.
#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/backends.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/oracle.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace ec::fuzz {
namespace {

namespace oracle = test::oracle;
using kernels::Backend;
using kernels::Status;

const std::vector<Backend*>& cpu_backends() {
  static const auto list = [] {
    std::vector<Backend*> able;
    for (const auto all : {kernels::backends(), kernels::variants()})
      for (Backend* b : all)
        if (!b->name().starts_with("cuda") && test::answers(*b)) able.push_back(b);
    return able;
  }();
  return list;
}

/// A chunk at some distance from the beginning of its block, which ends with it.
class Chunk {
 public:
  Chunk(std::size_t offset, std::size_t bytes, std::uint8_t seed)
      : offset_(offset), block_(std::make_unique<std::uint8_t[]>(offset + bytes)), bytes_(bytes) {
    std::fill_n(block_.get(), offset, guard);
    for (std::size_t i = 0; i < bytes; ++i) data()[i] = static_cast<std::uint8_t>(seed += i * 37 + 11);
  }
  std::uint8_t* data() const { return block_.get() + offset_; }
  oracle::Bytes content() const { return {data(), data() + bytes_}; }
  bool front_intact() const {
    return std::all_of(block_.get(), data(), [](std::uint8_t byte) { return byte == guard; });
  }

 private:
  static constexpr std::uint8_t guard = 0xa7;
  std::size_t offset_;
  std::unique_ptr<std::uint8_t[]> block_;
  std::size_t bytes_;
};

struct Draw {
  kernels::Program program;
  oracle::Rows rows;
  std::vector<Chunk> sources, targets;
  std::size_t bytes;
};

Draw draw(Input& input) {
  const auto sources = input.ConsumeIntegralInRange(1u, input.ConsumeIntegralInRange(0, 7) != 0 ? 5u : 20u);
  const auto targets = input.ConsumeIntegralInRange(1u, input.ConsumeIntegralInRange(0, 7) != 0 ? 4u : 9u);
  const auto bytes =
      input.ConsumeIntegralInRange<std::size_t>(0, input.ConsumeIntegralInRange(0, 7) != 0 ? 140 : 1100);
  const auto plain = input.ConsumeBool();  // ones: a back end may know XOR
  gf::Matrix matrix(targets, sources);
  for (unsigned t = 0; t < targets; ++t)
    for (unsigned s = 0; s < sources; ++s) matrix(t, s) = plain ? 1 : input.ConsumeIntegral<std::uint8_t>();
  const auto chunks = [&](unsigned count) {
    std::vector<Chunk> all;
    for (unsigned i = 0; i < count; ++i)
      all.emplace_back(input.ConsumeIntegralInRange<std::size_t>(0, 64), bytes,
                       input.ConsumeIntegral<std::uint8_t>());
    return all;
  };
  oracle::Rows rows = test::to_rows(matrix);
  auto from = chunks(sources);
  auto to = chunks(targets);
  return {kernels::Program(std::move(matrix)), std::move(rows), std::move(from), std::move(to), bytes};
}

std::vector<oracle::Bytes> contents(const std::vector<Chunk>& chunks) {
  std::vector<oracle::Bytes> all;
  for (const Chunk& chunk : chunks) all.push_back(chunk.content());
  return all;
}

void check(Backend& backend, const Draw& d, bool accumulate) {
  const auto before = contents(d.sources);
  auto expected = oracle::apply(d.rows, before);
  if (accumulate) {
    const auto old = contents(d.targets);
    for (std::size_t t = 0; t < old.size(); ++t)
      for (std::size_t i = 0; i < d.bytes; ++i) expected[t][i] ^= old[t][i];
  }
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
  for (const Chunk& chunk : d.sources) sources.push_back({chunk.data()});
  for (const Chunk& chunk : d.targets) targets.push_back({chunk.data()});
  const kernels::Job job{&d.program, sources, targets, d.bytes};
  const Status status = accumulate ? backend.accumulate(job) : backend.transform(job);
  expect(status == Status::ok, "ok from {}, not {}", backend.name(), kernels::name(status));
  expect(contents(d.targets) == expected, "{}: {}x{} on {} bytes", backend.name(), targets.size(),
         sources.size(), d.bytes);
  expect(contents(d.sources) == before, "{}: sources as before", backend.name());
  for (const auto* chunks : {&d.sources, &d.targets})
    for (const Chunk& chunk : *chunks)
      expect(chunk.front_intact(), "{}: bytes beside a chunk", backend.name());
}

}  // namespace
}  // namespace ec::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ec::fuzz;
  Input input(data, size);
  const auto& able = cpu_backends();
  auto& backend = *able[input.ConsumeIntegralInRange<std::size_t>(0, able.size() - 1)];
  const bool accumulate = input.ConsumeBool();
  check(backend, draw(input), accumulate);
  return 0;
}
