// Transform and accumulate at lengths around every boundary a vector kernel, a page or a slice can have.
#include <vector>

#include "tests/common/random_bytes.hpp"
#include "tests/kernels/backend_suite.hpp"

namespace ec::test {
namespace {

struct Shape {
  unsigned sources;
  unsigned targets;
};

std::vector<std::size_t> lengths_up_to(std::size_t longest) {
  std::vector<std::size_t> lengths{0, 1, 2, 3};
  for (std::size_t power = 8; power <= 65536; power *= 2)
    for (std::size_t bytes : {power - 1, power, power + 1})
      if (bytes <= longest) lengths.push_back(bytes);
  return lengths;
}

class Lengths : public BackendTest {
 protected:
  void check_shape(Shape shape, std::size_t longest) {
    for (const auto bytes : lengths_up_to(longest))
      for (const auto verb : {Verb::transform, Verb::accumulate}) {
        const std::uint64_t seed = bytes * 31 + shape.sources * 7 + shape.targets;
        check({random_matrix(shape.targets, shape.sources, seed), bytes, verb, {}, {}, seed});
        if (HasFailure()) return;
      }
  }
};

TEST_P(Lengths, SmallShapes) {
  for (const Shape shape :
       {Shape{1, 1}, {2, 1}, {1, 2}, {4, 2}, {2, 3}, {8, 3}, {10, 4}, {3, 5}, {5, 6}, {6, 7}})
    check_shape(shape, 8193);
}

TEST_P(Lengths, SmallShapesLongChunks) {
  for (const Shape shape : {Shape{1, 1}, {2, 1}, {4, 2}, {8, 3}, {10, 4}}) check_shape(shape, 65537);
}

TEST_P(Lengths, WideAndTallShapes) {
  for (const Shape shape : {Shape{32, 8}, {100, 20}, {128, 1}, {1, 40}, {250, 5}, {5, 250}})
    check_shape(shape, 257);
  check_shape({32, 8}, 8193);
  check_shape({100, 20}, 1025);
  for (const auto verb : {Verb::transform, Verb::accumulate}) {
    check({random_matrix(8, 32, 2), 65537, verb, {}, {}, 2});
    check({random_matrix(20, 100, 3), 8193, verb, {}, {}, 3});
  }
}

TEST_P(Lengths, AboutOneMebibyte) {
  constexpr std::size_t bytes = (std::size_t{1} << 20) + 3;
  for (const auto verb : {Verb::transform, Verb::accumulate}) {
    check({random_matrix(2, 4, 5), bytes, verb, {}, {}, 5});
    check({random_matrix(1, 3, 6), bytes, verb, {}, {}, 6});
  }
}

TEST_P(Lengths, EveryLengthToThreeHundred) {
  for (std::size_t bytes = 0; bytes <= 300; ++bytes)
    for (const auto verb : {Verb::transform, Verb::accumulate})
      check({random_matrix(3, 4, bytes), bytes, verb, {}, {}, bytes});
}

TEST_P(Lengths, ChunksThatEndAtAForbiddenPage) {
  if (arena().residence() != kernels::Residence::pageable) GTEST_SKIP() << "host pages only";
  const auto edge = page_edge_arena();
  for (const Shape shape : {Shape{1, 1}, {4, 2}, {8, 3}, {10, 4}, {6, 7}})
    for (const auto bytes : lengths_up_to(4097))
      for (const auto verb : {Verb::transform, Verb::accumulate})
        check_in({random_matrix(shape.targets, shape.sources, bytes), bytes, verb, {}, {}, bytes}, *edge);
}

INSTANTIATE_TEST_SUITE_P(Backends, Lengths, every_backend_and_memory(), param_name);

}  // namespace
}  // namespace ec::test
