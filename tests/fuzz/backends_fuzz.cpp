// Jobs of any shape, length and alignment, on every back end of this CPU, by the check that the conformance
// suite makes: against the oracle, with guards around every chunk or a forbidden page behind it.
#include <vector>

#include "kernels/backends.hpp"
#include "tests/common/conformance.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace ec::fuzz {
namespace {

using kernels::Backend;

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

test::JobCase draw(Input& input) {
  const auto sources = input.ConsumeIntegralInRange(1u, input.ConsumeIntegralInRange(0, 7) != 0 ? 5u : 20u);
  const auto targets = input.ConsumeIntegralInRange(1u, input.ConsumeIntegralInRange(0, 7) != 0 ? 4u : 9u);
  test::JobCase c;
  c.bytes =
      input.ConsumeIntegralInRange<std::size_t>(0, input.ConsumeIntegralInRange(0, 7) != 0 ? 140 : 1100);
  c.verb = input.ConsumeBool() ? test::Verb::accumulate : test::Verb::transform;
  const auto plain = input.ConsumeBool();  // ones: a back end may know XOR
  c.matrix.assign(targets, test::oracle::Bytes(sources, 1));
  for (auto& row : c.matrix)
    for (auto& cell : row)
      if (!plain) cell = input.ConsumeIntegral<std::uint8_t>();
  for (unsigned s = 0; s < sources; ++s)
    c.source_misalignment.push_back(input.ConsumeIntegral<std::uint8_t>());
  for (unsigned t = 0; t < targets; ++t)
    c.target_misalignment.push_back(input.ConsumeIntegral<std::uint8_t>());
  c.seed = input.ConsumeIntegral<std::uint64_t>();
  return c;
}

}  // namespace
}  // namespace ec::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ec::fuzz;
  namespace test = ec::test;
  static const auto heap = test::pageable_arena(), edge = test::page_edge_arena();
  Input input(data, size);
  const auto& able = cpu_backends();
  auto& backend = *able[input.ConsumeIntegralInRange<std::size_t>(0, able.size() - 1)];
  auto& arena = input.ConsumeBool() ? *heap : *edge;
  const auto outcome = test::run_case(backend, draw(input), arena);
  expect(outcome.verdict == test::Verdict::passed, "{}", outcome.reason);
  return 0;
}
