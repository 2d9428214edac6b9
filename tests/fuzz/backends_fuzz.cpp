// Jobs of any shape, length and alignment, on every back end of this CPU and of the emulated device, by the
// check that the conformance suite makes: against the oracle, with guards around every chunk or a forbidden
// page behind it.
#include <vector>

#include "gf/generator.hpp"
#include "kernels/backends.hpp"
#ifdef EC_EMULATED_DRIVER
#include "kernels/cuda/backend.hpp"
#endif
#include "tests/common/conformance.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace ec::fuzz {
namespace {

using kernels::Backend;

const std::vector<Backend*>& able_backends() {
  static const auto list = [] {
#ifdef EC_EMULATED_DRIVER
    kernels::cuda::Options options;
    options.driver_library = EC_EMULATED_DRIVER;
    // Slices are short.
    options.staging_bytes = std::size_t{1} << 20;
    kernels::cuda::configure(options);
#endif
    std::vector<Backend*> able;
    for (const auto all : {kernels::backends(), kernels::variants()})
      for (Backend* b : all)
        if (test::answers(*b)) able.push_back(b);
    return able;
  }();
  return list;
}

/// Encodes of cauchy codes, which a back end may code by other ways than the matrix where it is large.
test::oracle::Rows cauchy(Input& input) {
  const auto k = input.ConsumeIntegralInRange(8u, 48u);
  const auto m = input.ConsumeIntegralInRange(2u, 20u);
  return test::to_rows(gf::coding_matrix(gf::Technique::cauchy, k, m));
}

/// Any matrix.
test::oracle::Rows any(Input& input) {
  const auto sources = input.ConsumeIntegralInRange(1u, input.ConsumeIntegralInRange(0, 7) != 0 ? 5u : 20u);
  const auto targets = input.ConsumeIntegralInRange(1u, input.ConsumeIntegralInRange(0, 7) != 0 ? 4u : 9u);
  const auto plain = input.ConsumeBool();  // ones: a back end may know XOR
  test::oracle::Rows matrix(targets, test::oracle::Bytes(sources, 1));
  for (auto& row : matrix)
    for (auto& cell : row)
      if (!plain) cell = input.ConsumeIntegral<std::uint8_t>();
  return matrix;
}

test::JobCase draw(Input& input) {
  test::JobCase c;
  c.matrix = input.ConsumeIntegralInRange(0, 7) == 0 ? cauchy(input) : any(input);
  c.bytes =
      input.ConsumeIntegralInRange<std::size_t>(0, input.ConsumeIntegralInRange(0, 7) != 0 ? 140 : 1100);
  c.verb = input.ConsumeBool() ? test::Verb::accumulate : test::Verb::transform;
  for (std::size_t s = 0; s < c.matrix.front().size(); ++s)
    c.source_misalignment.push_back(input.ConsumeIntegral<std::uint8_t>());
  for (std::size_t t = 0; t < c.matrix.size(); ++t)
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
  const auto& able = able_backends();
  auto& backend = *able[input.ConsumeIntegralInRange<std::size_t>(0, able.size() - 1)];
  auto* arena = input.ConsumeBool() ? heap.get() : edge.get();
  const bool on_device = backend.name().starts_with("cuda");
  if (on_device && input.ConsumeBool()) arena = test::arena_of(ec::kernels::Residence::pinned);
  const auto outcome = test::run_case(backend, draw(input), *arena);
  // A kernel of the device may be for other matrices.
  expect(
      outcome.verdict == test::Verdict::passed || (on_device && outcome.verdict == test::Verdict::declined),
      "{}", outcome.reason);
  return 0;
}
