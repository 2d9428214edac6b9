// Every call of the C interface on a fiber's stack: none touches more than ec.h promises. The way of a call
// depends on shape, length and back end; runs with other EC_CUDA_ variables are in CMakeLists.txt.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/common/fiber.hpp"
#include "tests/plugin/library/placed.hpp"

namespace ec::test {
namespace {

using Numbers = std::vector<unsigned>;

/// Jobs of this length no second-level cache holds.
constexpr std::size_t long_job_bytes = std::size_t{5} << 20;

class Stack : public testing::TestWithParam<ec_technique> {
 protected:
  void TearDown() override {
    const char* const driver = std::getenv("EC_TEST_DRIVER");
    EXPECT_TRUE(driver == nullptr || dlopen(driver, RTLD_LAZY | RTLD_NOLOAD) != nullptr)
        << "the device is not there";
  }

  /// What the call returned.
  int on_fiber(const std::function<int()>& call) {
    int answer = -1;
    stack_used([&] { answer = call(); });
    return answer;
  }

  void code_all(unsigned k, unsigned m, const std::vector<std::size_t>& lengths) {
    ec_codec* codec = nullptr;
    ASSERT_TRUE(succeeds(on_fiber([&] { return ec_codec_create(k, m, GetParam(), &codec); })));
    for (const std::size_t bytes : lengths) {
      SCOPED_TRACE(std::to_string(k) + "+" + std::to_string(m) + ", " + std::to_string(bytes) + " bytes");
      ASSERT_NO_FATAL_FAILURE(code(codec, k, m, bytes));
    }
    on_fiber([&] { return ec_codec_destroy(codec), 0; });
  }

 private:
  using Chunks = std::vector<oracle::Bytes>;

  int encode(const ec_codec* codec, unsigned k, unsigned m, Chunks& chunks) {
    const auto data = views_of<ec_source>(chunks, numbers(0, k));
    const auto coding = views_of<ec_target>(chunks, numbers(k, k + m));
    return on_fiber([&] { return ec_encode(codec, 1, data.data(), coding.data(), chunks.front().size()); });
  }

  void accumulate(const ec_codec* codec, unsigned k, unsigned m, Chunks& chunks) {
    const Numbers data = numbers(0, k), coding = numbers(k, k + m);
    for (const unsigned c : coding) chunks[c].assign(chunks[c].size(), 0x5a);
    const auto to = views_of<ec_target>(chunks, coding);
    ec_accumulator* state = nullptr;
    ASSERT_TRUE(succeeds(on_fiber([&] {
      return ec_begin(codec, 1, data.data(), k, coding.data(), m, to.data(), chunks[0].size(), &state);
    })));
    for (const unsigned c : data) {
      const ec_source chunk{chunks[c].data(), EC_PAGEABLE};
      ASSERT_TRUE(succeeds(on_fiber([&] { return ec_add(state, c, &chunk); })));
    }
    ASSERT_TRUE(succeeds(on_fiber([&] { return ec_end(state); })));
  }

  /// Losses are decoded out of what encode made, so that wrong coding chunks show.
  void code(const ec_codec* codec, unsigned k, unsigned m, std::size_t bytes) {
    Chunks chunks = Random(k * 256 + m).chunks(k + m, bytes);
    ASSERT_TRUE(succeeds(encode(codec, k, m, chunks)));
    const Chunks intact = chunks;
    Numbers spread;
    for (unsigned i = 0; i < m; ++i) spread.push_back(i * (k + m) / m);
    for (const Numbers& lost : {numbers(0, std::min(k, m)), spread, Numbers{k / 2}}) {
      const Numbers available = without(numbers(0, k + m), lost);
      for (const unsigned c : lost) chunks[c].assign(bytes, 0x5a);
      const auto from = views_of<ec_source>(chunks, available);
      const auto to = views_of<ec_target>(chunks, lost);
      ASSERT_TRUE(succeeds(on_fiber([&] {
        return ec_decode(codec, 1, available.data(), available.size(), from.data(), lost.data(), lost.size(),
                         to.data(), bytes);
      })));
      ASSERT_EQ(chunks, intact) << lost.size() << " lost";
    }
    const Numbers all = numbers(0, k + m);
    const auto of_all = views_of<ec_source>(chunks, all);
    ec_verdict found{};
    if (k + m <= 14 && bytes < 10'000) {
      char* found = nullptr;
      ASSERT_TRUE(succeeds(on_fiber([&] { return ec_identify(of_all.data(), all.size(), bytes, &found); })));
      std::free(found);
    }
    ASSERT_NO_FATAL_FAILURE(accumulate(codec, k, m, chunks));
    ASSERT_EQ(chunks, intact);
    for (const bool wrong : {false, true}) {
      if (wrong) chunks.back().back() ^= 1;
      ASSERT_TRUE(succeeds(on_fiber(
          [&] { return ec_verify(codec, 1, all.data(), all.size(), of_all.data(), bytes, &found); })));
      ASSERT_EQ(found.agree, wrong ? 0 : 1);
    }
    chunks = intact;
    // An update that clears a data chunk.
    const unsigned chunk = k - 1;
    const ec_source delta{chunks[chunk].data(), EC_PAGEABLE};
    const auto coding = views_of<ec_target>(chunks, numbers(k, k + m));
    ASSERT_TRUE(succeeds(on_fiber([&] { return ec_update(codec, 1, chunk, &delta, coding.data(), bytes); })));
    Chunks cleared = intact;
    cleared[chunk].assign(bytes, 0);
    ASSERT_EQ(encode(codec, k, m, cleared), 0);
    cleared[chunk] = intact[chunk];
    ASSERT_EQ(chunks, cleared);
  }
};

TEST_P(Stack, SmallCodes) {
  for (const auto& [k, m] : small_shapes(GetParam() == EC_CAUCHY ? "cauchy" : "reed_sol_van", 16))
    ASSERT_NO_FATAL_FAILURE(code_all(k, m, {1, 64, 4096 + 17}));
}

TEST_P(Stack, LongChunks) {
  for (const auto& [k, m] : {std::pair{4u, 2u}, {8u, 3u}, {10u, 4u}, {21u, 4u}})
    ASSERT_NO_FATAL_FAILURE(code_all(k, m, {16384, long_job_bytes / (k + m)}));
}

TEST_P(Stack, WideCodes) {
  std::vector<std::pair<unsigned, unsigned>> shapes{{64, 3}, {252, 3}, {254, 1}};
  // On both sides of what is coded by a transform, of a block of its points and of a pass of the rows.
  if (GetParam() == EC_CAUCHY)
    shapes.insert(shapes.end(),
                  {{16, 7},   {16, 8},   {24, 8},   {25, 7},   {32, 8},    {33, 9},   {41, 7},
                   {64, 16},  {65, 17},  {100, 20}, {100, 31}, {128, 32},  {129, 31}, {96, 33},
                   {128, 64}, {191, 64}, {223, 32}, {222, 33}, {128, 127}, {2, 253},  {250, 5}});
  for (const auto& [k, m] : shapes)
    ASSERT_NO_FATAL_FAILURE(code_all(k, m, {1, 64, 4096 + 17, long_job_bytes / (k + m)}));
}

TEST_P(Stack, Refusals) {
  ec_codec* codec = nullptr;
  EXPECT_EQ(on_fiber([&] { return ec_codec_create(1, 0, GetParam(), &codec); }), -EINVAL);
  ASSERT_EQ(on_fiber([&] { return ec_codec_create(4, 2, GetParam(), &codec); }), 0);
  std::vector<unsigned char> memory(64);
  const std::vector<ec_source> sources(4, {memory.data(), EC_PAGEABLE});
  const std::vector<ec_target> targets(2, {memory.data(), EC_PAGEABLE});
  EXPECT_EQ(on_fiber([&] { return ec_encode(codec, 1, sources.data(), targets.data(), 64); }), -EINVAL);
  const unsigned available[] = {0, 1, 2}, wanted[] = {3};
  EXPECT_EQ(on_fiber([&] {
              return ec_decode(codec, 1, available, 3, sources.data(), wanted, 1, targets.data(), 64);
            }),
            -ENODATA);
  ec_codec_destroy(codec);
}

INSTANTIATE_TEST_SUITE_P(Techniques, Stack, testing::Values(EC_REED_SOL_VAN, EC_CAUCHY),
                         [](const auto& info) {
                           return info.param == EC_CAUCHY ? "cauchy" : "reed_sol_van";
                         });

}  // namespace
}  // namespace ec::test
