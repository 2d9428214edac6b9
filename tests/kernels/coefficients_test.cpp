// Every coefficient, and the matrices a back end may treat apart.
#include "tests/kernels/backend_suite.hpp"

namespace ec::test {
namespace {

using oracle::Rows;

class Coefficients : public BackendTest {
 protected:
  void check_both(const Rows& matrix, std::size_t bytes = 1111) {
    for (const auto verb : {Verb::transform, Verb::accumulate}) check({matrix, bytes, verb, {}, {}, 17});
  }
};

TEST_P(Coefficients, EachOfThe256) {
  for (unsigned value = 0; value < 256; ++value) check_both({{static_cast<std::uint8_t>(value)}}, 600);
}

TEST_P(Coefficients, ProductOfEveryPairOfBytes) {
  Rows all(4, oracle::Bytes(64));
  for (unsigned value = 0; value < 256; ++value)
    all[value / 64][value % 64] = static_cast<std::uint8_t>(value);
  check_both(all, 2048);
}

TEST_P(Coefficients, AllZero) { check_both(Rows(3, oracle::Bytes(4, 0))); }

TEST_P(Coefficients, AllOne) {
  for (const unsigned sources : {1u, 2u, 5u, 32u}) check_both(Rows(1, oracle::Bytes(sources, 1)));
  check_both(Rows(3, oracle::Bytes(6, 1)));
}

TEST_P(Coefficients, Identity) { check_both({{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}); }

TEST_P(Coefficients, ZeroRowAndZeroColumn) {
  check_both({{0, 0, 0}, {3, 0, 7}, {1, 0, 255}});
  check_both({{0, 0, 0, 9}, {0, 0, 0, 0}});
}

TEST_P(Coefficients, TwoProgramsAtOnceDoNotMix) {
  for (unsigned round = 0; round < 20; ++round) {
    check({random_matrix(2, 4, round), 300, Verb::transform, {}, {}, round});
    check({random_matrix(4, 2, round), 300, Verb::transform, {}, {}, round});
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Coefficients, every_backend_and_memory(), param_name);

}  // namespace
}  // namespace ec::test
