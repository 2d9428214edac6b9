// Sources in one kind of memory and targets in another.
#include "tests/kernels/backend_suite.hpp"

namespace ec::test {
namespace {

class MixedResidence : public BackendTest {};

TEST_P(MixedResidence, SourcesHereAndTargetsInEveryOtherMemory) {
  for (const auto elsewhere : residences()) {
    Arena* targets = arena_of(elsewhere);
    if (targets == nullptr || targets == &arena()) continue;
    for (const std::size_t bytes : {1u, 100u, 4096u, 65537u})
      for (const auto verb : {Verb::transform, Verb::accumulate})
        check_between({random_matrix(3, 8, bytes), bytes, verb, {0, 1, 16}, {0, 7}, bytes}, arena(),
                      *targets);
  }
  if (jobs() == 0) GTEST_SKIP() << "this machine has one kind of memory";
}

INSTANTIATE_TEST_SUITE_P(Backends, MixedResidence, every_backend_and_memory(), param_name);

}  // namespace
}  // namespace ec::test
