// Any matrix becomes a schedule of XORs that, carried out, is the matrix.
#include <vector>

#include "kernels/cuda/generate/schedule.hpp"
#include "tests/common/oracle.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/kernels/cuda/generate/interpreter.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ec::fuzz;
  using namespace ec::kernels::cuda;
  namespace oracle = ec::test::oracle;
  Input input(data, size);
  const bool accumulate = input.ConsumeBool();
  const auto sources = input.ConsumeIntegralInRange(1u, 3u);
  const auto targets = input.ConsumeIntegralInRange(1u, 3u);
  const auto bytes = input.ConsumeIntegralInRange<std::size_t>(0, 70);
  ec::gf::Matrix matrix(targets, sources);
  oracle::Rows rows(targets, oracle::Bytes(sources));
  for (unsigned t = 0; t < targets; ++t)
    for (unsigned s = 0; s < sources; ++s) matrix(t, s) = rows[t][s] = input.ConsumeIntegral<std::uint8_t>();

  // Content from the rest of the input, over and over.
  const auto rest = input.ConsumeRemainingBytes<std::uint8_t>();
  std::size_t at = 0;
  const auto chunk = [&] {
    oracle::Bytes content(bytes);
    for (auto& byte : content)
      byte = static_cast<std::uint8_t>(rest.empty() ? at++ * 29 : rest[at++ % rest.size()]);
    return content;
  };
  std::vector<oracle::Bytes> from, to;
  std::vector<const std::uint8_t*> reads;
  std::vector<std::uint8_t*> writes;
  for (unsigned s = 0; s < sources; ++s) from.push_back(chunk());
  for (unsigned t = 0; t < targets; ++t) to.push_back(chunk());
  for (const auto& source : from) reads.push_back(source.data());
  for (auto& target : to) writes.push_back(target.data());

  auto expected = oracle::apply(rows, from);
  if (accumulate)
    for (unsigned t = 0; t < targets; ++t)
      for (std::size_t i = 0; i < bytes; ++i) expected[t][i] ^= to[t][i];
  const Schedule schedule = make_schedule(matrix);
  interpret(schedule, reads, writes, bytes, accumulate);
  expect(to == expected, "the matrix of {}x{} on {} bytes", targets, sources, bytes);
  for (const auto& step : schedule.steps)
    expect(8 * step.count + step.sums <= accumulator_base, "registers that can be named");
  return 0;
}
