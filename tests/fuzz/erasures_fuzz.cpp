// Any set of chunks there and any set wanted, of any code: the decode plan is right, or there is none because
// fewer than k are there.
#include <array>
#include <map>
#include <memory>

#include "gf/decode_plan.hpp"
#include "gf/generator.hpp"
#include "tests/common/oracle.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace ec::fuzz {
namespace {

namespace oracle = test::oracle;
using gf::ChunkSet;

/// A code as the oracle has it, and its coding matrix as ours.
struct Code {
  unsigned k, m;
  oracle::Rows generator;
  gf::Matrix coding;
};

const Code& code_of(gf::Technique technique, unsigned k, unsigned m) {
  static std::map<std::array<unsigned, 3>, std::unique_ptr<const Code>> codes;
  auto& code = codes[{static_cast<unsigned>(technique), k, m}];
  if (!code)
    code = std::make_unique<const Code>(
        Code{k, m, oracle::generator(gf::name(technique), k, m), gf::coding_matrix(technique, k, m)});
  return *code;
}

const Code& draw_code(Input& input) {
  const auto technique = input.ConsumeBool() ? gf::Technique::cauchy : gf::Technique::reed_sol_van;
  // Wide ones cost a thousand times as much, and teach little that narrow ones do not.
  const unsigned widest = input.ConsumeIntegralInRange(0, 63) == 0 ? 40 : 8;
  const unsigned k = input.ConsumeIntegralInRange(2u, widest);
  const unsigned m = input.ConsumeIntegralInRange(1u, widest / 2);
  return gf::shape_error(technique, k, m).empty() ? code_of(technique, k, m)
                                                  : code_of(gf::Technique::cauchy, k, m);
}

/// Row `chunk` of the generator is row `row` of the plan times the generator's rows of the sources.
void check_row(const Code& code, const gf::DecodePlan& plan, unsigned row) {
  for (unsigned c = 0; c < code.k; ++c) {
    std::uint8_t sum = 0;
    for (unsigned s = 0; s < plan.sources.size(); ++s)
      sum ^= oracle::mul(plan.matrix(row, s), code.generator[plan.sources[s]][c]);
    expect(sum == code.generator[plan.targets[row]][c], "chunk {} over data chunk {}", plan.targets[row], c);
  }
}

void check_plan(const Code& code, const ChunkSet& available, const ChunkSet& wanted) {
  const auto plan = gf::make_decode_plan(code.coding, {available, wanted});
  ChunkSet lost;
  for (unsigned c = 0; c < code.k + code.m; ++c)
    if (wanted.contains(c) && !available.contains(c)) lost.insert(c);
  const unsigned there = (available & ChunkSet::first(code.k + code.m)).count();
  expect(plan.has_value() == (lost.empty() || there >= code.k), "a plan where {} of {} are there", there,
         code.k);
  if (!plan) return;
  ChunkSet sources, targets;
  for (const auto c : plan->sources) sources.insert(c);
  for (const auto c : plan->targets) targets.insert(c);
  expect(targets == lost, "the targets are what is lost");
  expect(sources.count() == plan->sources.size() && available.includes(sources), "sources that are there");
  if (lost.empty()) return;
  expect(plan->sources.size() == code.k && plan->matrix.cols() == code.k &&
             plan->matrix.rows() == plan->targets.size(),
         "a matrix of its shape");
  for (unsigned row = 0; row < plan->targets.size(); ++row) check_row(code, *plan, row);
}

}  // namespace
}  // namespace ec::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ec::fuzz;
  Input input(data, size);
  const Code& code = draw_code(input);
  // A little beyond the last chunk too: the door above refuses such numbers, the plan ignores them.
  const auto beyond = input.ConsumeBool() ? 0u : 3u;
  const auto available = chunk_set(input, code.k + code.m);
  const auto wanted = chunk_set(input, code.k + code.m + beyond);
  check_plan(code, available, wanted);
  return 0;
}
