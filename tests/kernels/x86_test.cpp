// What is particular to the x86 back end: which instruction set runs, and both ways of writing targets.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <tuple>

#include "gf/decode_plan.hpp"
#include "gf/generator.hpp"
#include "kernels/backends.hpp"
#include "kernels/x86/backend.hpp"
#include "kernels/x86/coefficients.hpp"
#include "kernels/x86/walk.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/fiber.hpp"
#include "tests/common/oracle.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/common/stripes.hpp"

namespace ec::test {
namespace {

using kernels::Job;
using kernels::Program;
using kernels::Source;
using kernels::Target;
using kernels::Verb;
using kernels::x86::Core;
using kernels::x86::Isa;
using kernels::x86::Walk;
using kernels::x86::X86;

/// Makes the last row such that the sum of all rows is that of the first `summed` sources.
void fold_rows(oracle::Rows& rows, unsigned summed) {
  for (std::size_t c = 0; c < rows.front().size(); ++c) {
    std::uint8_t sum = c < summed;
    for (std::size_t r = 0; r + 1 < rows.size(); ++r) sum ^= rows[r][c];
    rows.back()[c] = sum;
  }
}

/// What is left of a fiber's stack to the callers of a kernel; of whole calls: stack_test.cpp.
constexpr std::size_t kept_for_back_end = 8192;

class Variant : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto* found = dynamic_cast<X86*>(kernels::find_backend(GetParam()));
    ASSERT_NE(found, nullptr);
    variant_ = found;
    if (!variant_->runs_here()) GTEST_SKIP() << "this CPU lacks the instructions";
  }

  void check(const JobCase& c) {
    const auto arena = pageable_arena();
    const Outcome outcome = run_case(*variant_, c, *arena);
    EXPECT_EQ(outcome.verdict, Verdict::passed) << outcome.reason;
  }

  X86* variant_ = nullptr;
};

TEST_P(Variant, IsTheOneThatRuns) {
  for (const auto& [k, m] : {std::pair{3u, 2u}, {32u, 8u}})
    for (const std::size_t length : {100, 128}) {
      const Program program(gf::coding_matrix(gf::Technique::cauchy, k, m));
      StripeSet stripes("cauchy", k, m, 1, length, 1);
      const auto sources = stripes.views<Source>(stripes.data_numbers());
      const auto targets = stripes.views<Target>(stripes.coding_numbers());
      for (const Verb verb : {Verb::transform, Verb::accumulate}) {
        Isa ran{0xff};
        EXPECT_EQ(variant_->run({&program, sources, targets, length}, verb, &ran), Status::ok);
        EXPECT_EQ(ran, variant_->isa());
      }
    }
}

/// Of a job that no cache holds.
Walk large_walk(unsigned sources, unsigned targets, bool accumulate, const Core& core) {
  return kernels::x86::walk_on(core, sources, targets, std::size_t{1} << 30, accumulate);
}

TEST(X86Walk, StreamsNothingThatIsAddedToAndKeepsTheSumsOfATileOnTheStack) {
  for (const Core& core : {Core{8, false}, Core{12, false}, Core{12, true}}) {
    EXPECT_TRUE(large_walk(10, 4, false, core).stream);
    EXPECT_FALSE(large_walk(10, 4, true, core).stream) << "what is added to is read first";
    for (unsigned targets = 1; targets < gf::max_chunks; ++targets)
      EXPECT_LE(targets * large_walk(40, targets, false, core).tile_bytes, kernels::x86::tile_sums_bytes);
  }
}

/// Two targets, neither of which begins at a page.
struct NewTargets {
  static constexpr std::size_t bytes = 1 << 20, all_bytes = 3 * bytes;

  NewTargets() { EXPECT_NE(memory, MAP_FAILED); }
  NewTargets(const NewTargets&) = delete;
  NewTargets& operator=(const NewTargets&) = delete;
  ~NewTargets() { munmap(memory, all_bytes); }
  bool may_be_streamed() const { return kernels::x86::may_stream_to(list, 2, bytes); }
  /// Whether the page at this offset was made.
  bool is_there(std::size_t offset) const {
    unsigned char state = 0;
    EXPECT_EQ(mincore(static_cast<std::uint8_t*>(memory) + offset, 1, &state), 0);
    return (state & 1) != 0;
  }

  void* memory = mmap(nullptr, all_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::uint8_t* list[2] = {static_cast<std::uint8_t*>(memory) + 64,
                           static_cast<std::uint8_t*>(memory) + 2 * bytes - 64};
};

TEST(X86Walk, MakesNewPagesAndStreamsIntoOthers) {
  const std::jthread counted_by_itself([] {
    const NewTargets other, targets;
    if (other.is_there(0)) GTEST_SKIP() << "this system says of each page that it is there";
    madvise(other.memory, 1, MADV_POPULATE_WRITE);  // not before Linux 5.14, and not by QEMU
    EXPECT_FALSE(targets.may_be_streamed());
    for (const std::size_t offset :
         {0ul, targets.bytes / 2, targets.bytes, 2 * targets.bytes, 3 * targets.bytes - 8192})
      EXPECT_EQ(targets.is_there(offset / 4096 * 4096), other.is_there(0)) << offset;
    std::memset(targets.memory, 1, targets.all_bytes);
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(targets.may_be_streamed());
    unsigned streamed = 0;
    while (streamed <= 8 && NewTargets().may_be_streamed()) ++streamed;
    EXPECT_LE(streamed, 8u) << "at the latest the next look sees new pages";
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(NewTargets().may_be_streamed());
  });
}

TEST(X86Walk, SumsLeaveRegistersWhereSourcesShareASet) {
  const auto stay = [](unsigned count, std::uintptr_t apart, const Core& core) {
    std::vector<const std::uint8_t*> sources(count);
    for (unsigned s = 0; s < count; ++s)
      sources[s] = reinterpret_cast<const std::uint8_t*>(0x100000 + s * apart + s % 2);
    return kernels::x86::sums_stay(sources.data(), count, core);
  };
  const Core few_ways{8, false}, many_ways{12, false};
  EXPECT_TRUE(stay(16, 4096, few_ways));
  EXPECT_FALSE(stay(17, 4096, few_ways));
  EXPECT_FALSE(stay(24, 65536, few_ways));
  EXPECT_TRUE(stay(24, 4096 + 64, few_ways));
  EXPECT_TRUE(stay(32, 4096, many_ways));
}

struct alignas(64) Line {
  std::uint8_t bytes[64];
};

/// rows . sources by each of the walks, and what a call needs of the stack. misfit: where targets begin in a
/// cache line; only targets that lie alike there can be streamed.
void check_walks(const oracle::Rows& rows, std::size_t bytes, std::size_t misfit, kernels::x86::Isa isa,
                 std::span<const Walk> walks) {
  const unsigned targets = static_cast<unsigned>(rows.size()),
                 sources = static_cast<unsigned>(rows[0].size());
  const kernels::x86::Coefficients coefficients(Program(to_matrix(rows)), kernels::x86::form_of(isa));
  const auto data = Random(sources * bytes).chunks(sources, bytes);
  const auto expected = oracle::apply(rows, data);
  std::vector<const std::uint8_t*> from;
  for (const auto& chunk : data) from.push_back(chunk.data());
  for (const Walk& walk : walks) {
    if (walk.tile_bytes > kernels::x86::max_tile_bytes(targets)) continue;
    const std::size_t stride = (bytes + misfit + 63) / 64 * 64;
    std::vector<Line> room(targets * stride / 64);
    std::vector<std::uint8_t*> to;
    for (unsigned t = 0; t < targets; ++t) to.push_back(room[t * stride / 64].bytes + misfit);
    const auto rows_at = to;
    std::swap(to[0], to[coefficients.first]);
    const kernels::x86::ProductCall call{from.data(),
                                         to.data(),
                                         sources,
                                         targets,
                                         bytes,
                                         coefficients.bytes.data(),
                                         coefficients.first_is_xor,
                                         coefficients.folded,
                                         !walk.stream && !walk.written_out,
                                         walk};
    EXPECT_LE(stack_used([&] { kernels::x86::call_kernel(isa, call); }), promised_stack - kept_for_back_end);
    for (unsigned t = 0; t < targets; ++t)
      ASSERT_EQ(oracle::Bytes(rows_at[t], rows_at[t] + bytes), expected[t])
          << sources << " to " << targets << ", " << bytes << " bytes, tiles of " << walk.tile_bytes << " by "
          << walk.group_sources << ", folded " << coefficients.folded;
  }
}

/// Every way of walking the data, those included that this CPU's caches do not ask for.
TEST_P(Variant, EveryWalkMakesTheSameBytes) {
  std::vector<Walk> walks{{}, {.stream = true}, {.short_blocks = true}};
  for (const Core core : {Core{8, false}, Core{12, false}, Core{12, true}})
    for (const unsigned sources : {7u, 23u, 25u})
      for (const unsigned targets : {4u, 13u, 17u, 32u}) {
        for (const bool accumulate : {false, true})
          walks.push_back(large_walk(sources, targets, accumulate, core));
      }
  walks.push_back({.tile_bytes = 256, .group_sources = 1, .stream = true});
  walks.push_back({.ahead_bytes = 512});
  walks.push_back({.ahead_bytes = 512, .stream = true});
  for (const auto& [sources, targets] : {std::pair{7u, 4u}, {25u, 4u}, {7u, 13u}, {23u, 13u}, {23u, 32u}})
    for (const std::size_t bytes : {1u, 63u, 64u, 1024u, 5000u})
      for (const bool fold : {false, true}) {
        auto rows = random_matrix(targets, sources, bytes);
        if (fold)
          fold_rows(rows, sources - targets % 3);
        else
          rows[1].assign(sources, 1);
        check_walks(rows, bytes, fold ? 17 : 0, variant_->isa(), walks);
      }
}

/// Each number of few sources and targets has a loop of its own; one more of each has none.
TEST_P(Variant, EachNumberOfFewSourcesAndTargetsMakesTheSameBytes) {
  for (unsigned sources = 1; sources <= kernels::x86::max_few_sources + 1; ++sources)
    for (unsigned targets = 1; targets <= kernels::x86::max_few_targets + 1; ++targets)
      for (const std::size_t bytes : {1u, 63u, 64u, 209u, 1024u})
        for (const bool ones : {false, true}) {
          auto rows = random_matrix(targets, sources, bytes);
          if (ones) rows.back().assign(sources, 1);
          check_walks(rows, bytes, ones ? 17 : 0, variant_->isa(), {{{.written_out = true}}});
        }
}

/// Whether registers can hold the sums.
bool fits_registers(const kernels::x86::Transform& transform) {
  return transform.row_blocks == 1 && transform.log_points == kernels::x86::transform_register_log_points;
}

/// All other chunks are there.
gf::DecodePlan plan_for(const gf::Matrix& coding, const gf::ChunkSet& wanted) {
  const auto all = gf::ChunkSet::first(coding.cols() + coding.rows());
  return gf::make_decode_plan(coding, {all - wanted, wanted}).value();
}

/// Where it is less work; many losses of wide codes are in patterns_test.cpp.
TEST_P(Variant, CauchyMatricesByTheirStages) {
  const bool has_it = kernels::x86::variants()[0].supports(Job{});
  for (const auto& [k, m] :
       {std::pair{16u, 8u}, {24u, 7u}, {32u, 8u}, {41u, 7u}, {64u, 16u}, {100u, 20u}, {128u, 32u}}) {
    const std::size_t streamed = kernels::x86::this_core().stream_above / k + 77;
    const bool is_streamed = k == 24 || k == 100;
    const auto coding = gf::coding_matrix(gf::Technique::cauchy, k, m);
    const auto encode = to_rows(coding);
    const kernels::x86::Coefficients coefficients(Program(coding), kernels::x86::CoefficientForm::affine);
    EXPECT_EQ(coefficients.transform != nullptr, has_it);
    EXPECT_TRUE(!has_it || fits_registers(*coefficients.transform) == (m <= 8));
    for (const std::size_t bytes : {1u, 63u, 64u, 1023u, 1024u, 4096u + 17u}) {
      check({encode, bytes, Verb::transform, {}, {}, bytes});
      check({encode, bytes, Verb::transform, {3, 17}, {5, 0, 64}, bytes});
      check({encode, bytes, Verb::accumulate, {}, {}, bytes});
    }
    if (is_streamed) check({encode, streamed, Verb::transform, {}, {}, 1});
    const auto edge = page_edge_arena();
    const Outcome at_edge = run_case(*variant_, {encode, 4096 + 17, Verb::transform, {}, {}, 1}, *edge);
    EXPECT_EQ(at_edge.verdict, Verdict::passed) << at_edge.reason;
    // So many coding chunks, and data chunks so far apart.
    for (const auto& [lost_coding, step] : {std::pair{0u, 5u}, {0u, 1u}, {2u, 5u}, {m, 5u}}) {
      gf::ChunkSet lost;
      for (unsigned c = 0; c < lost_coding; ++c) lost.insert(k + m - 1 - c);
      for (unsigned c = lost_coding; c < m; ++c) lost.insert(c * step % k);
      const auto plan = plan_for(coding, lost);
      const kernels::ChunkNumbers chunks{plan.sources, plan.targets};
      if (has_it && step == 1 && k >= 32 && m >= 8) {
        const kernels::x86::Coefficients decode(Program(plan.matrix, chunks),
                                                kernels::x86::CoefficientForm::affine);
        ASSERT_TRUE(decode.transform);
        EXPECT_GT(decode.transform->solution.blocks, 0u);
        EXPECT_EQ(decode.transform->then, nullptr);
      }
      const auto rows = to_rows(plan.matrix);
      for (const std::size_t bytes : {1u, 64u, 3000u})
        check({rows, bytes, Verb::transform, {}, {1}, bytes, 1, chunks});
      // The oracle takes its time with megabytes.
      if (is_streamed) check({rows, streamed, Verb::transform, {}, {}, 1, 1, chunks});
    }
  }
}

/// A core takes one of them, and by one way of writing; this takes all.
TEST(X86Transform, SumsInRegistersAndInMemoryMakeTheSameBytes) {
  if (!kernels::x86::variants()[0].supports(Job{})) GTEST_SKIP() << "no AVX-512 or GFNI";
  constexpr std::size_t bytes = 2048 + 64;
  for (const auto& [k, m, lost] :
       {std::tuple{16u, 8u, 0u}, {24u, 7u, 0u}, {32u, 8u, 0u}, {32u, 8u, 8u}, {41u, 7u, 0u}}) {
    SCOPED_TRACE(testing::Message() << k << "+" << m << ", " << lost << " lost");
    const gf::ChunkSet coding_chunks = gf::ChunkSet::first(k + m) - gf::ChunkSet::first(k);
    const auto plan = plan_for(gf::coding_matrix(gf::Technique::cauchy, k, m),
                               lost == 0 ? coding_chunks : gf::ChunkSet::first(lost));
    const Program program(plan.matrix, {plan.sources, plan.targets});
    const kernels::x86::Coefficients coefficients(program, kernels::x86::CoefficientForm::affine);
    ASSERT_TRUE(coefficients.transform);
    const auto& transform = *coefficients.transform;
    ASSERT_TRUE(fits_registers(transform));
    ASSERT_EQ(transform.solution.blocks, lost / 8);
    const auto data = Random(k).chunks(k, bytes);
    const auto expected = oracle::apply(to_rows(plan.matrix), data);
    std::vector<const std::uint8_t*> sources;
    for (const auto& chunk : data) sources.push_back(chunk.data());
    const unsigned rows = plan.matrix.rows();
    for (const bool in_registers : {false, true})
      for (const bool stream : {false, true})
        for (const std::size_t tile_bytes : {0u, 64u, 448u}) {
          std::vector<Line> made(rows * bytes / 64);
          std::vector<std::uint8_t*> targets(rows);
          for (unsigned t = 0; t < rows; ++t) targets[t] = made[t * bytes / 64].bytes;
          kernels::x86::TransformCall call{sources.data(), targets.data(), rows,        bytes,
                                           &transform,     stream,         in_registers};
          if (tile_bytes == 0) {
            kernels::x86::call_transform(call);
          } else {  // as without memory
            std::vector<Line> room(transform.lines * tile_bytes / 64);
            call.tile_bytes = tile_bytes;
            call.room = room[0].bytes;
            kernels::x86::transform_gfni512(call);
          }
          for (unsigned t = 0; t < rows; ++t)
            ASSERT_EQ(oracle::Bytes(targets[t], targets[t] + bytes), expected[t]) << "target " << t;
        }
  }
}

/// What a solution costs more than a matrix must not lose the transform: 8 lost from 3 on take two blocks.
TEST(X86Transform, IsTakenToSolveForChunksAmidBlocks) {
  if (!kernels::x86::variants()[0].supports(Job{})) GTEST_SKIP() << "no AVX-512 or GFNI";
  for (const unsigned k : {48u, 56u, 64u}) {
    const auto plan = plan_for(gf::coding_matrix(gf::Technique::cauchy, k, 8),
                               gf::ChunkSet::first(11) - gf::ChunkSet::first(3));
    const Program program(plan.matrix, {plan.sources, plan.targets});
    const kernels::x86::Coefficients coefficients(program, kernels::x86::CoefficientForm::affine);
    ASSERT_TRUE(coefficients.transform) << k << "+8";
    EXPECT_TRUE(fits_registers(*coefficients.transform)) << k << "+8";
  }
}

TEST_P(Variant, NoSourcesMakeZeros) {
  const Program program(gf::Matrix(1, 0));
  std::vector<std::uint8_t> bytes(77, 0xee);
  const Target target{bytes.data(), kernels::Residence::pageable};
  const Job job{&program, {}, {&target, 1}, bytes.size()};
  EXPECT_EQ(variant_->accumulate(job), Status::ok);
  EXPECT_EQ(std::ranges::count(bytes, 0xee), 77);
  EXPECT_EQ(variant_->transform(job), Status::ok);
  EXPECT_EQ(std::ranges::count(bytes, 0), 77);
}

INSTANTIATE_TEST_SUITE_P(X86, Variant,
                         testing::Values("x86-gfni512", "x86-gfni256", "x86-avx512", "x86-avx2"),
                         [](const auto& info) {
                           std::string label(info.param);
                           std::ranges::replace(label, '-', '_');
                           return label;
                         });

TEST(X86Backend, IsTheBestVariantOfThisCpu) {
  X86& best = kernels::x86::backend();
  EXPECT_EQ(kernels::find_backend("x86"), &best);
  for (const X86& variant : kernels::x86::variants()) {
    if (!variant.runs_here()) continue;
    EXPECT_EQ(best.isa(), variant.isa()) << "variants are listed best first";
    return;
  }
  EXPECT_FALSE(best.runs_here());
}

/// For the tests that run this program on an emulated CPU and know what it has.
TEST(X86Backend, IsTheVariantThatTheEnvironmentNames) {
  const char* expected = std::getenv("EC_TEST_X86_VARIANT");
  if (expected == nullptr) GTEST_SKIP() << "no EC_TEST_X86_VARIANT";
  const X86& best = kernels::x86::backend();
  if (std::string_view(expected) == "none") {
    EXPECT_FALSE(best.runs_here());
    return;
  }
  const auto* variant = dynamic_cast<X86*>(kernels::find_backend(expected));
  ASSERT_NE(variant, nullptr) << expected;
  EXPECT_TRUE(best.runs_here());
  EXPECT_EQ(best.isa(), variant->isa());
}

TEST(X86Coefficients, FoldWhereAllLostChunksAreDataAndOneSourceIsTheirSum) {
  const auto folded = [](gf::ChunkSet available) {
    const auto coding = gf::coding_matrix(gf::Technique::reed_sol_van, 8, 4);
    const auto all = gf::ChunkSet::first(8);
    const auto plan = gf::make_decode_plan(coding, {available, all});
    return kernels::x86::Coefficients(Program(plan->matrix), kernels::x86::CoefficientForm::affine).folded;
  };
  const auto all = gf::ChunkSet::first(12);
  EXPECT_EQ(folded(all - gf::ChunkSet{0, 3, 7}), 6u) << "five data chunks and the first coding chunk";
  EXPECT_EQ(folded(all - gf::ChunkSet{0, 1, 2, 3}), 5u);
  EXPECT_EQ(folded(all - gf::ChunkSet{0, 3, 8}), 0u) << "the sum is lost";
  EXPECT_EQ(folded(all - gf::ChunkSet{2}), 0u) << "a row of ones needs no folding";
}

}  // namespace
}  // namespace ec::test
