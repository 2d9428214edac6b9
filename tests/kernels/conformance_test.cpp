// What every back end has to do in every kind of memory: each coefficient, length, address and number of
// stripes, against the oracle.
#include "tests/common/random_bytes.hpp"
#include "tests/kernels/backend_suite.hpp"

namespace ec::test {
namespace {

using oracle::Bytes;
using oracle::Rows;

constexpr Verb verbs[] = {Verb::transform, Verb::accumulate};

class Conformance : public BackendTest {
 protected:
  void check_both(const Rows& matrix, std::size_t bytes, std::uint64_t seed = 17) {
    for (const auto verb : verbs) check({matrix, bytes, verb, {}, {}, seed});
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, Conformance, every_backend_and_memory(), param_name);

TEST_P(Conformance, ProductOfEveryPairOfBytes) {
  Rows all(4, Bytes(64));
  for (unsigned value = 0; value < 256; ++value)
    all[value / 64][value % 64] = static_cast<std::uint8_t>(value);
  check_both(all, 2048);
}

/// Matrices that a back end may treat apart.
TEST_P(Conformance, ZerosAndOnes) {
  for (const Rows& matrix :
       {Rows(3, Bytes(4, 0)), Rows(1, Bytes(1, 1)), Rows(1, Bytes(2, 1)), Rows(1, Bytes(5, 1)),
        Rows(1, Bytes(32, 1)), Rows(3, Bytes(6, 1)), Rows{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
        Rows{{0, 0, 0}, {3, 0, 7}, {1, 0, 255}}, Rows{{0, 0, 0, 9}, {0, 0, 0, 0}}})
    check_both(matrix, 1111);
  // A row of ones among others: of one source, and in more rows than one pass of a kernel takes.
  for (const auto& [rows, cols] : {std::pair{3u, 1u}, {7u, 1u}, {13u, 1u}, {32u, 7u}, {33u, 7u}, {65u, 7u}})
    for (const unsigned ones : {0u, rows - 1}) {
      Rows matrix = random_matrix(rows, cols, rows);
      matrix[ones].assign(cols, 1);
      for (const std::size_t bytes : {31u, 128u, 1111u}) check_both(matrix, bytes);
    }
}

/// M(r ^ h, c ^ h) = M(r, c) for h < classes, which a back end may code by fewer products; and the same but
/// for one cell.
TEST_P(Conformance, PairedMatrices) {
  struct {
    unsigned classes, sources, targets;
  } const shapes[] = {{2, 40, 10},  {2, 64, 14}, {2, 100, 18}, {2, 6, 36},   {4, 100, 20},
                      {4, 128, 32}, {4, 4, 8},   {4, 68, 44},  {8, 192, 32}, {8, 200, 24},
                      {8, 16, 8},   {8, 64, 16}, {8, 160, 40}, {8, 240, 8}};
  for (const auto& [classes, sources, targets] : shapes) {
    Rows matrix = random_matrix(targets, sources, classes + sources);
    for (unsigned r = 0; r < targets; ++r)
      for (unsigned c = 0; c < sources; ++c) matrix[r][c] = matrix[r - r % classes][c ^ r % classes];
    for (const std::size_t bytes : {63u, 64u, 1024u + 80u}) check_both(matrix, bytes, bytes);
    for (const unsigned r : {0u, classes - 1, targets - 1}) {
      Rows other = matrix;
      other[r][sources - 1 - r % classes] ^= 1;
      check({other, 128, Verb::transform, {}, {}, r});
    }
  }
}

/// Lengths around every boundary that a vector kernel, a page or a slice can have.
std::vector<std::size_t> lengths_up_to(std::size_t longest) {
  std::vector<std::size_t> lengths{0, 1, 2, 3};
  for (std::size_t power = 8; power <= 65536; power *= 2)
    for (std::size_t bytes : {power - 1, power, power + 1})
      if (bytes <= longest) lengths.push_back(bytes);
  return lengths;
}

struct Shape {
  unsigned sources, targets;
  std::size_t longest;
};

class Lengths : public BackendTest {
 protected:
  void check_shape(const Shape& shape, Arena& memory) {
    for (const auto bytes : lengths_up_to(shape.longest))
      for (const auto verb : verbs) {
        const std::uint64_t seed = bytes * 31 + shape.sources * 7 + shape.targets;
        check_between({random_matrix(shape.targets, shape.sources, seed), bytes, verb, {}, {}, seed}, memory,
                      memory);
        if (HasFailure()) return;
      }
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, Lengths, every_backend_and_memory(), param_name);

TEST_P(Lengths, SmallShapes) {
  for (const Shape& shape : {Shape{1, 1, 65537},
                             {2, 1, 65537},
                             {1, 2, 8193},
                             {4, 2, 65537},
                             {2, 3, 8193},
                             {8, 3, 65537},
                             {10, 4, 65537},
                             {3, 5, 8193},
                             {5, 6, 8193},
                             {6, 7, 8193}})
    check_shape(shape, arena());
}

TEST_P(Lengths, WideAndTallShapes) {
  for (const Shape& shape :
       {Shape{32, 8, 8193}, {100, 20, 1025}, {128, 1, 257}, {1, 40, 257}, {250, 5, 257}, {5, 250, 257}})
    check_shape(shape, arena());
}

TEST_P(Lengths, LongChunks) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  std::vector<Shape> shapes{{32, 8, 65537}, {100, 20, 8193}, {4, 2, mebibyte + 3}, {3, 1, mebibyte + 3}};
  // More than 32 tiles for each warp of an H100's tensor-core kernels; in host memory too much to be staged.
  if (arena().residence() == kernels::Residence::device)
    shapes.push_back({1, 5, 11 * mebibyte + 3 * 128 + 3});
  for (const Shape& shape : shapes)
    for (const auto verb : verbs)
      check({random_matrix(shape.targets, shape.sources, 5), shape.longest, verb, {}, {}, 5});
}

TEST_P(Lengths, EveryLengthToThreeHundred) {
  for (std::size_t bytes = 0; bytes <= 300; ++bytes)
    for (const auto verb : verbs) check({random_matrix(3, 4, bytes), bytes, verb, {}, {}, bytes});
}

TEST_P(Lengths, ChunksThatEndAtAForbiddenPage) {
  if (arena().residence() != kernels::Residence::pageable) GTEST_SKIP() << "host pages only";
  const auto edge = page_edge_arena();
  for (const Shape& shape : {Shape{1, 1, 4097},
                             {1, 4, 4097},
                             {1, 13, 4097},
                             {4, 2, 4097},
                             {8, 3, 4097},
                             {10, 4, 4097},
                             {6, 7, 4097}})
    check_shape(shape, *edge);
}

TEST_P(Conformance, EveryAddress) {
  for (unsigned offset = 0; offset < 64; ++offset)
    for (const auto verb : verbs) {
      for (const std::size_t bytes : {33u, 512u, 1337u}) {
        check({random_matrix(2, 4, offset), bytes, verb, {offset}, {}, offset});
        check({random_matrix(1, 3, offset), bytes, verb, {offset}, {offset}, offset});
      }
      check({random_matrix(3, 8, offset), 777, verb, {}, {offset}, offset});
      check({random_matrix(6, 1, offset), 777, verb, {}, {offset}, offset});
    }
}

TEST_P(Conformance, EveryChunkAtAnAddressOfItsOwn) {
  Random random(99);
  for (unsigned round = 0; round < 200; ++round) {
    const unsigned sources = 1 + random.below(16);
    const unsigned targets = 1 + random.below(8);
    JobCase c{random_matrix(targets, sources, round), random.below(3000), verbs[round % 2], {}, {}, round};
    for (unsigned i = 0; i < sources; ++i) c.source_misalignment.push_back(random.below(256));
    for (unsigned i = 0; i < targets; ++i) c.target_misalignment.push_back(random.below(256));
    check(c);
  }
  for (unsigned odd = 0; odd < 5; ++odd)
    for (const unsigned offset : {1u, 2u, 4u, 8u, 15u, 16u, 32u}) {
      JobCase c{random_matrix(2, 5, odd), 4096, Verb::transform, std::vector<unsigned>(5, 0), {}, odd};
      c.source_misalignment[odd] = offset;
      check(c);
    }
}

TEST_P(Conformance, SourcesHereAndTargetsInEveryOtherMemory) {
  for (const auto elsewhere : residences()) {
    Arena* targets = arena_of(elsewhere);
    if (targets == nullptr || targets == &arena()) continue;
    for (const std::size_t bytes : {1u, 100u, 4096u, 65537u})
      for (const auto verb : verbs)
        check_between({random_matrix(3, 8, bytes), bytes, verb, {0, 1, 16}, {0, 7}, bytes}, arena(),
                      *targets);
  }
  if (jobs() == 0) GTEST_SKIP() << "this machine has one kind of memory";
}

class Stripes : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, Stripes, every_backend_and_memory(), param_name);

TEST_P(Stripes, OfEveryLength) {
  for (const std::size_t bytes : {0u, 1u, 1000u, 1024u, 4096u, 4099u, 5000u})
    for (const std::size_t stripes : {2u, 3u, 17u})
      check({random_matrix(3, 8, bytes), bytes, Verb::transform, {}, {}, bytes, stripes});
  check({random_matrix(2, 4, 1), 5000, Verb::transform, {0, 1, 16}, {0, 7}, 1, 5});
}

TEST_P(Stripes, Wide) { check({random_matrix(8, 64, 2), 2048, Verb::transform, {}, {}, 2, 3}); }

/// Jobs of different programs and lengths go one by one.
TEST(StripesOfDifferentKinds, AreAllCoded) {
  const Bytes from(100, 1);
  for (kernels::Backend* backend : suite_backends()) {
    if (!answers(*backend)) continue;
    Bytes a(100), b(60);
    const kernels::Program two(to_matrix({{2}})), three(to_matrix({{3}}));
    const kernels::Source source{from.data(), kernels::Residence::pageable};
    const kernels::Target to_a{a.data(), {}}, to_b{b.data(), {}};
    const kernels::Job jobs[] = {{&two, {&source, 1}, {&to_a, 1}, a.size()},
                                 {&three, {&source, 1}, {&to_b, 1}, b.size()}};
    EXPECT_EQ(backend->transform_all(jobs), kernels::Status::ok) << backend->name();
    EXPECT_EQ(a, Bytes(100, 2)) << backend->name();
    EXPECT_EQ(b, Bytes(60, 3)) << backend->name();
    if (is_device(*backend)) continue;
    const kernels::Target on_device{b.data(), kernels::Residence::device};
    const kernels::Job mixed[] = {{&three, {&source, 1}, {&to_a, 1}, a.size()},
                                  {&three, {&source, 1}, {&on_device, 1}, b.size()}};
    EXPECT_EQ(backend->transform_all(mixed), kernels::Status::unsupported) << backend->name();
    EXPECT_EQ(a, Bytes(100, 2)) << backend->name() << " wrote a job of a call that it declines";
  }
}

}  // namespace
}  // namespace ec::test
