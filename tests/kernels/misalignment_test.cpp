// Chunks at every address: alike, and each at its own.
#include "tests/common/random_bytes.hpp"
#include "tests/kernels/backend_suite.hpp"

namespace ec::test {
namespace {

class Misalignment : public BackendTest {};

TEST_P(Misalignment, AllSourcesAlikeZeroTo63) {
  for (unsigned offset = 0; offset < 64; ++offset)
    for (const auto verb : {Verb::transform, Verb::accumulate})
      for (const std::size_t bytes : {33u, 512u, 1337u}) {
        check({random_matrix(2, 4, offset), bytes, verb, {offset}, {}, offset});
        check({random_matrix(1, 3, offset), bytes, verb, {offset}, {offset}, offset});
      }
}

TEST_P(Misalignment, AllTargetsAlikeZeroTo63) {
  for (unsigned offset = 0; offset < 64; ++offset)
    for (const auto verb : {Verb::transform, Verb::accumulate})
      check({random_matrix(3, 8, offset), 777, verb, {}, {offset}, offset});
}

TEST_P(Misalignment, EveryChunkAtItsOwn) {
  Random random(99);
  for (unsigned round = 0; round < 200; ++round) {
    const unsigned sources = 1 + random.below(16);
    const unsigned targets = 1 + random.below(8);
    JobCase c{random_matrix(targets, sources, round), random.below(3000), Verb::transform, {}, {}, round};
    if (round % 2 == 1) c.verb = Verb::accumulate;
    for (unsigned i = 0; i < sources; ++i) c.source_misalignment.push_back(random.below(256));
    for (unsigned i = 0; i < targets; ++i) c.target_misalignment.push_back(random.below(256));
    check(c);
  }
}

TEST_P(Misalignment, OneChunkOffAmongAligned) {
  for (unsigned odd = 0; odd < 5; ++odd)
    for (const unsigned offset : {1u, 2u, 4u, 8u, 15u, 16u, 32u}) {
      JobCase c{random_matrix(2, 5, odd), 4096, Verb::transform, std::vector<unsigned>(5, 0), {}, odd};
      c.source_misalignment[odd] = offset;
      check(c);
    }
}

INSTANTIATE_TEST_SUITE_P(Backends, Misalignment, every_backend_and_memory(), param_name);

}  // namespace
}  // namespace ec::test
