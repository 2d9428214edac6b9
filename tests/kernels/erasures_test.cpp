// Every pattern of 1..m lost chunks of every small code, recovered by the matrix of the oracle.
#include <bit>
#include <string_view>

#include "tests/common/shapes.hpp"
#include "tests/kernels/backend_suite.hpp"

namespace ec::test {
namespace {

class Erasures : public BackendTest {
 protected:
  void check_code(std::string_view technique, unsigned k, unsigned m) {
    const auto generator = oracle::generator(technique, k, m);
    check({oracle::coding_matrix(technique, k, m), 67, Verb::transform, {}, {}, k * 16 + m});
    for (unsigned lost = 1; lost < 1u << (k + m); ++lost) {
      if (static_cast<unsigned>(std::popcount(lost)) > m) continue;
      std::vector<unsigned> sources, targets;
      for (unsigned c = 0; c < k + m; ++c)
        if (lost >> c & 1)
          targets.push_back(c);
        else if (sources.size() < k)
          sources.push_back(c);
      const auto recovery = oracle::recovery_matrix(generator, sources, targets);
      ASSERT_TRUE(recovery) << technique << " k=" << k << " m=" << m << " lost " << lost;
      check({*recovery, 67, Verb::transform, {}, {}, lost});
      if (HasFailure()) return;
    }
  }
};

TEST_P(Erasures, ReedSolVanUpToTwelveChunks) {
  for (const auto [k, m] : small_shapes("reed_sol_van", 12)) check_code("reed_sol_van", k, m);
}

TEST_P(Erasures, CauchyUpToTwelveChunks) {
  for (const auto [k, m] : small_shapes("cauchy", 12)) check_code("cauchy", k, m);
}

INSTANTIATE_TEST_SUITE_P(Backends, Erasures, every_backend_and_memory(), param_name);

}  // namespace
}  // namespace ec::test
