// Many stripes in one call.
#include "tests/kernels/backend_suite.hpp"

namespace ec::test {
namespace {

class Stripes : public BackendTest {};

TEST_P(Stripes, OfEveryLength) {
  for (const std::size_t bytes : {0u, 1u, 1000u, 1024u, 4096u, 4099u, 5000u})
    for (const std::size_t stripes : {2u, 3u, 17u})
      check({random_matrix(3, 8, bytes), bytes, Verb::transform, {}, {}, bytes, stripes});
}

TEST_P(Stripes, Misaligned) {
  check({random_matrix(2, 4, 1), 5000, Verb::transform, {0, 1, 16}, {0, 7}, 1, 5});
}

TEST_P(Stripes, Wide) { check({random_matrix(8, 64, 2), 2048, Verb::transform, {}, {}, 2, 3}); }

INSTANTIATE_TEST_SUITE_P(Backends, Stripes, every_backend_and_memory(), param_name);

/// Jobs of different programs and lengths go one by one.
TEST(StripesOfDifferentKinds, AreAllCoded) {
  const std::vector<std::uint8_t> from(100, 1);
  for (kernels::Backend* backend : suite_backends()) {
    if (!answers(*backend)) continue;
    std::vector<std::uint8_t> a(100), b(60);
    const kernels::Program two(to_matrix({{2}})), three(to_matrix({{3}}));
    const kernels::Source source{from.data()};
    const kernels::Target to_a{a.data()}, to_b{b.data()};
    const kernels::Job jobs[] = {{&two, {&source, 1}, {&to_a, 1}, a.size()},
                                 {&three, {&source, 1}, {&to_b, 1}, b.size()}};
    EXPECT_EQ(backend->transform_all(jobs), kernels::Status::ok) << backend->name();
    EXPECT_EQ(a, std::vector<std::uint8_t>(100, 2)) << backend->name();
    EXPECT_EQ(b, std::vector<std::uint8_t>(60, 3)) << backend->name();
  }
}

}  // namespace
}  // namespace ec::test
