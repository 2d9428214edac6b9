// Generated kernels on the device: right at every length, for encode and decode matrices, both verbs. Needs a
// GPU; skipped without one.
#include <gtest/gtest.h>

#include "gf/decode_plan.hpp"
#include "gf/generator.hpp"
#include "kernels/cuda/backend.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/random_bytes.hpp"
#include "tools/device/buffer.hpp"

namespace ec::test {
namespace {

using kernels::Residence;
using kernels::cuda::KernelKind;

class Generated : public testing::Test {
 protected:
  void SetUp() override {
    // The sums of 32+8 below must fit a lane's part.
    auto options = kernels::cuda::current_options();
    options.staging_bytes = std::size_t{256} << 20;
    options.alone_in_process = true;  // as in a daemon: without stacks
    kernels::cuda::configure(options);
    kernels::cuda::Reason why;
    const auto info = kernels::cuda::bring_up(&why);
    if (!info || info->name == "emulated device") GTEST_SKIP() << "no device " << why.c_str();
  }

  /// Every length around the tiles, in each residence, with one program.
  void check_matrix(const oracle::Rows& matrix, std::uint64_t seed) {
    for (const auto residence : {Residence::device, Residence::pinned, Residence::pageable})
      for (const std::size_t bytes :
           {1023u, 1024u, 1025u, 1040u, 2047u, 2048u, 4096u, 65536u + 48u, 1048576u + 17u})
        for (const auto verb : {Verb::transform, Verb::accumulate}) {
          auto& backend = kernels::cuda::backend(KernelKind::generated);
          const auto outcome = run_case(backend, {matrix, bytes, verb, {}, {}, ++seed}, *arena_of(residence));
          ASSERT_EQ(outcome.verdict, Verdict::passed) << outcome.reason;
        }
  }
};

TEST_F(Generated, EncodeMatrices) {
  for (const auto& [k, m] :
       {std::pair{1u, 1u}, {2u, 1u}, {4u, 2u}, {8u, 3u}, {10u, 4u}, {3u, 8u}, {20u, 4u}, {32u, 8u}})
    check_matrix(to_rows(gf::coding_matrix(gf::Technique::cauchy, k, m)), k * 1000 + m);
  check_matrix(to_rows(gf::coding_matrix(gf::Technique::reed_sol_van, 8, 3)), 1);
}

TEST_F(Generated, MatricesWithZeroAndOne) {
  check_matrix(random_matrix(3, 5, 7), 7);
  check_matrix({{0, 0, 0}, {1, 1, 1}, {0, 1, 0}}, 8);
}

TEST_F(Generated, DecodeMatrices) {
  const auto coding = gf::coding_matrix(gf::Technique::cauchy, 6, 3);
  for (const gf::ChunkSet lost : {gf::ChunkSet{0}, {1, 4}, {0, 2, 5}, {3, 7}, {6, 7, 8}, {0, 6, 8}}) {
    const auto plan = gf::make_decode_plan(coding, {gf::ChunkSet::first(9) - lost, lost});
    ASSERT_TRUE(plan);
    check_matrix(to_rows(plan->matrix), lost.hash() % 1000);
  }
}

TEST_F(Generated, ManyStripes) {
  auto& backend = kernels::cuda::backend(KernelKind::generated);
  for (const auto& [k, m] : {std::pair{4u, 2u}, {8u, 3u}, {20u, 4u}}) {
    const auto matrix = to_rows(gf::coding_matrix(gf::Technique::cauchy, k, m));
    for (const auto residence : {Residence::device, Residence::pinned, Residence::pageable})
      for (const std::size_t bytes : {1000u, 1024u, 4096u, 4099u, 70000u})
        for (const std::size_t stripes : {2u, 33u}) {
          const auto outcome = run_case(backend, {matrix, bytes, Verb::transform, {}, {}, bytes, stripes},
                                        *arena_of(residence));
          ASSERT_EQ(outcome.verdict, Verdict::passed) << outcome.reason;
        }
  }
}

/// More addresses than a lane's table holds, so that the call is several launches; the stripes share chunks.
TEST_F(Generated, MoreStripesThanATableHolds) {
  constexpr std::size_t stripes = 50'000, bytes = 1024;
  const kernels::Program program(to_matrix({{2, 3}}));
  const auto buffer = kernels::cuda::Buffer::allocate((stripes + 2) * bytes, Residence::device);
  ASSERT_TRUE(buffer);
  const auto data = Random(1).bytes(2 * bytes);
  ASSERT_TRUE(buffer.upload(0, data.data(), data.size()));
  const kernels::Source sources[] = {{buffer.data(), Residence::device},
                                     {buffer.data() + bytes, Residence::device}};
  std::vector<kernels::Target> targets;
  for (std::size_t i = 0; i < stripes; ++i)
    targets.push_back({buffer.data() + (2 + i) * bytes, Residence::device});
  std::vector<kernels::Job> jobs;
  for (const auto& target : targets) jobs.push_back({&program, sources, {&target, 1}, bytes});
  ASSERT_EQ(kernels::cuda::backend(KernelKind::generated).transform_all(jobs), kernels::Status::ok);
  const auto expected =
      oracle::apply({{2, 3}}, {{data.begin(), data.begin() + bytes}, {data.begin() + bytes, data.end()}})[0];
  std::vector<std::uint8_t> all(stripes * bytes);
  ASSERT_TRUE(buffer.download(2 * bytes, all.data(), all.size()));
  for (std::size_t i = 0; i < stripes; ++i)
    ASSERT_TRUE(
        std::equal(expected.begin(), expected.end(), all.begin() + static_cast<std::ptrdiff_t>(i * bytes)))
        << "stripe " << i;
}

}  // namespace
}  // namespace ec::test
