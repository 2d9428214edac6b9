// Back ends that lie: which are caught, when, and what becomes of the call, the bytes and the liar.
#include "plugin/codec/checking/validator.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "kernels/backends.hpp"
#include "plugin/codec/routing/router.hpp"
#include "tests/common/fake_backend.hpp"
#include "tests/common/folder.hpp"
#include "tests/common/placed_stripes.hpp"
#include "tests/common/threads.hpp"

namespace ec::test {
namespace {

using codec::Router;
using codec::Stats;
using codec::Validation;
using codec::Validator;
using kernels::BackendKind;
using kernels::Job;
using Spoil = FakeBackend::Spoil;

constexpr Validation always{.every = 1, .whole = true};
constexpr Validation sample(unsigned every) { return {.every = every, .whole = false}; }

kernels::Backend& honest() { return *kernels::find_backend("isal"); }

std::vector<std::string> logged;  // by the validator of the test that runs
void log(const char* line) { logged.emplace_back(line); }

/// Stripes in ordinary memory.
PlacedStripes stripes_of(unsigned sources, unsigned targets, std::size_t bytes, bool accumulate = false,
                         std::size_t count = 1, std::uint64_t seed = 1) {
  return {{.bytes = bytes,
           .verb = accumulate ? kernels::Verb::accumulate : kernels::Verb::transform,
           .count = count,
           .k = sources,
           .m = targets},
          seed};
}

/// The list of a build whose first back end lies, or its second too.
struct Build {
  explicit Build(const Validation& how, Spoil lie, Spoil lie_of_isal = nullptr,
                 const std::string& directory = {})
      : first("x86", BackendKind::coder, honest(), std::move(lie)),
        isal(
            "isal", BackendKind::judge, honest(), lie_of_isal ? std::move(lie_of_isal) : [](auto) {}),
        list{&first, &isal, &kernels::reference_backend()},
        validator(how, log, directory) {
    logged.clear();
    codec::this_thread().until_compared = 0;  // a validator before this one has drawn the next comparison
  }
  Router router() { return Router(codec::BackendChoice::cpu, 0, list, counts, validator); }

  FakeBackend first, isal;
  std::array<kernels::Backend*, 3> list;
  Stats counts;
  Validator validator;
};

Spoil at(std::size_t target, std::size_t byte, std::size_t stripe = 0) {
  return [=](std::span<const Job> jobs) { flip(jobs[stripe], target, byte); };
}

Status code(const Router& router, const PlacedStripes& stripes) {
  return router.transform(stripes.jobs()[0], operation_of(stripes.shape().verb));
}

/// A wrong byte.
void expect_put_right(const PlacedStripes& stripes, std::size_t target, std::size_t byte) {
  Build build(always, at(target, byte));
  stripes.restore_targets();
  ASSERT_EQ(code(build.router(), stripes), Status::ok);
  ASSERT_EQ(stripes.right(), true) << "byte " << byte << " of target " << target;
  ASSERT_EQ(build.validator.counts()[0].mismatches, 1u);
}

TEST(ValidateAlways, OneWrongByteAnywhereIsPutRight) {
  for (const bool accumulate : {false, true}) {
    const auto stripes = stripes_of(5, 3, 300, accumulate);
    for (std::size_t target = 0; target < 3; ++target)
      for (std::size_t byte = 0; byte < 300; ++byte) expect_put_right(stripes, target, byte);
  }
}

TEST(ValidateAlways, TheSeamsOfBlocksAreSeenToo) {
  for (const unsigned targets : {1u, 8u, 9u, 100u, 255u}) {
    const std::size_t longest = codec::longest_block(targets);
    ASSERT_GE(longest, 128u);
    ASSERT_LE(longest * targets, codec::block_target_bytes);
    for (const bool accumulate : {false, true}) {
      const auto stripes = stripes_of(2, targets, 2 * longest + 77, accumulate);
      for (const std::size_t byte :
           {std::size_t{0}, longest - 1, longest, 2 * longest - 1, 2 * longest, 2 * longest + 76})
        expect_put_right(stripes, targets - 1, byte);
    }
  }
}

TEST(ValidateAlways, EveryStripeOfManyIsSeen) {
  for (std::size_t stripe = 0; stripe < 7; ++stripe) {
    const auto stripes = stripes_of(4, 2, 5000, false, 7);
    Build build(always, at(1, 4500, stripe));
    ASSERT_EQ(build.router().transform_all(stripes.jobs()), Status::ok);
    ASSERT_EQ(stripes.right(), true) << stripe;
    EXPECT_EQ(build.validator.counts()[0].mismatches, 1u);
  }
}

/// Who lies in a list of x86, isal and reference, and what three calls of each verb come to.
TEST(Validate, LiarsAreNotAskedAgainAndEveryCallStands) {
  const Spoil none = [](auto) {};
  const struct {
    Spoil x86, isal;
    unsigned off;                         ///< by the back ends' bits
    unsigned asked, checked, mismatches;  ///< of x86
    unsigned lies_of_isal;
  } rows[] = {{none, none, 0, 3, 3, 0, 0},
              {at(1, 17), none, 1, 1, 1, 1, 0},
              {none, at(0, 63), 2, 3, 3, 0, 1},  // the reference judges from then on
              {at(1, 17), at(0, 63), 3, 1, 1, 1, 1}};
  for (const auto& row : rows)
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(testing::Message() << "row " << &row - rows << (accumulate ? ", accumulate" : ""));
      const auto stripes = stripes_of(3, 2, 6000, accumulate);
      Build build(always, row.x86, row.isal);
      for (unsigned call = 0; call < 3; ++call) {
        stripes.restore_targets();
        ASSERT_EQ(code(build.router(), stripes), Status::ok);
        ASSERT_EQ(stripes.right(), true);
      }
      EXPECT_EQ(build.validator.off(), row.off);
      EXPECT_EQ(build.first.calls(), row.asked);
      EXPECT_EQ(codec::sum(build.counts.page()).all(0).calls, row.asked - row.mismatches);
      EXPECT_EQ(codec::sum(build.counts.page()).all(0).fell_back(), row.mismatches);
      EXPECT_EQ(build.validator.counts()[0].checked, row.checked);
      EXPECT_EQ(build.validator.counts()[0].unchecked, 0u);
      EXPECT_EQ(build.validator.counts()[0].mismatches, row.mismatches);
      EXPECT_EQ(build.validator.counts()[1].checked, 0u) << "a judge is not watched";
      EXPECT_EQ(build.validator.counts()[1].mismatches, row.lies_of_isal);
      EXPECT_EQ(logged.size(), row.mismatches + row.lies_of_isal);
      for (const char* liar : {"x86", "isal"})
        EXPECT_EQ(std::ranges::count_if(logged,
                                        [&](const std::string& line) {
                                          return line.starts_with(
                                              fmt::format("ec_cuda: {} gave wrong bytes", liar));
                                        }),
                  liar[0] == 'x' ? row.mismatches : row.lies_of_isal);
    }
}

TEST(Validate, AMismatchIsSaidInFull) {
  const auto stripes = stripes_of(2, 2, 1000);
  Build build(always, at(1, 17));
  ASSERT_EQ(code(build.router(), stripes), Status::ok);
  EXPECT_EQ(&build.router().cpu_backend(stripes.jobs()[0]), &build.isal);
  ASSERT_EQ(logged.size(), 1u);
  const unsigned right = stripes.expected(1)[17];
  EXPECT_EQ(logged[0],
            fmt::format(
                "ec_cuda: x86 gave wrong bytes and is not used again by this process: byte 17 of target 1 is "
                "{:#04x}, reference says {:#04x}: transform 2x2, one stripe of chunks of 1000 bytes, matrix "
                "{:02x} / {:02x}; block of 1000 bytes at 0; no bytes are kept: : it cannot be opened as a "
                "directory: No such file or directory",
                right ^ 1, right, fmt::join(stripes.rows()[0], " "), fmt::join(stripes.rows()[1], " ")));
}

/// Of one call: another that is watched would have to be watched in its turn.
TEST(Validate, AfterALieOnlyAJudgeCodes) {
  const auto stripes = stripes_of(2, 2, 1000);
  FakeBackend cuda("cuda", BackendKind::device, honest(), at(0, 0));
  FakeBackend x86("x86", BackendKind::coder, Status::ok), isal("isal", BackendKind::judge, Status::ok);
  const std::array<kernels::Backend*, 4> list{&cuda, &x86, &isal, &kernels::reference_backend()};
  Stats counts;
  Validator validator(sample(1));
  codec::this_thread().until_compared = 0;
  const Router router(codec::BackendChoice::gpu, 0, list, counts, validator);
  ASSERT_EQ(code(router, stripes), Status::ok);
  EXPECT_EQ(stripes.right(), true);
  EXPECT_EQ(x86.calls(), 0u);
  EXPECT_EQ(codec::sum(counts.page()).all(2).calls, 1u);
  ASSERT_EQ(code(router, stripes), Status::ok);
  EXPECT_EQ(x86.calls(), 1u) << "the next call is its own again";
}

/// As it was made, and as it must be; by either verb.
TEST(Validate, TheBytesOfAMismatchAreKeptForTheOwner) {
  for (const bool accumulate : {false, true}) {
    const Folder folder;
    const auto stripes = stripes_of(3, 2, 9000, accumulate, 2);
    Build build(always, at(1, 8500), nullptr, folder.path());
    ASSERT_EQ(code(build.router(), stripes), Status::ok);
    ASSERT_EQ(logged.size(), 1u);
    ASSERT_EQ(folder.names().size(), 2u);
    const std::string made = *folder.names().begin(), right = made.substr(0, made.size() - 4) + "right";
    EXPECT_TRUE(made.starts_with("x86-")) << made;
    EXPECT_TRUE(
        logged[0].ends_with("; block of 808 bytes at 8192; its bytes: " + folder / made + " and .right"))
        << logged[0];
    std::string expected;
    for (std::size_t t = 0; t < 2; ++t) {
      const auto chunk = stripes.expected(t);
      expected.append(chunk.begin() + 8192, chunk.end());
    }
    EXPECT_EQ(content_of(folder / right), expected);
    expected[808 + 8500 - 8192] ^= 1;
    EXPECT_EQ(content_of(folder / made), expected);
    for (const std::string& name : folder.names())
      EXPECT_EQ(static_cast<unsigned>(std::filesystem::status(folder / name).permissions()), 0600u);
  }
}

TEST(Validate, BytesGoIntoNoDirectoryOfOthers) {
  const Folder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  const auto stripes = stripes_of(3, 2, 1000);
  Build build(always, at(1, 17), nullptr, folder.path());
  ASSERT_EQ(code(build.router(), stripes), Status::ok);
  ASSERT_EQ(stripes.right(), true);
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_TRUE(logged[0].ends_with("; no bytes are kept: " + folder.path() +
                                  ": others may write to it (chmod go-w mends that)"))
      << logged[0];
  EXPECT_TRUE(folder.names().empty());
}

TEST(Validate, OtherAnswersPassThrough) {
  const auto stripes = stripes_of(2, 1, 100);
  for (const auto answer : {Status::unsupported, Status::busy, Status::fault, Status::hung}) {
    FakeBackend fake("cuda", BackendKind::device, answer);
    const std::array<kernels::Backend*, 2> list{&fake, &kernels::reference_backend()};
    Validator validator(always);
    const auto got = validator.run(list, 0, {kernels::Verb::transform, stripes.jobs()});
    EXPECT_EQ(got.status, answer);
    EXPECT_FALSE(got.doubted);
    EXPECT_EQ(validator.counts()[0].checked, 0u);
  }
}

TEST(Validate, NothingToCompareIsNoMismatch) {
  Build build(always, [](auto) {});
  const Router router = build.router();
  for (const bool accumulate : {false, true})
    EXPECT_EQ(code(router, stripes_of(2, 1, 0, accumulate)), Status::ok);
  const auto stripes = stripes_of(2, 1, 10);
  EXPECT_EQ(router.transform({&stripes.program(), stripes.jobs()[0].sources, {}, 10}), Status::ok);
  EXPECT_EQ(build.validator.off(), 0u);
}

/// In a chunk of one block a lie is caught by the call that is due. One wrong byte in a chunk of 16 blocks is
/// in a block that is drawn in one call of thirty or sooner: of 1000 calls none has it once in 10^14 runs.
TEST(ValidateSample, CatchesALieAnywhere) {
  constexpr std::size_t longer = 65'536 + 100;
  const struct {
    unsigned every;
    std::size_t bytes, byte, stripes, stripe;
    unsigned calls;
  } rows[] = {{1, 4096, 4000, 1, 0, 2},
              {2, 4096, 4000, 1, 0, 4},
              {7, 4096, 4000, 1, 0, 14},
              {100, 4096, 4000, 1, 0, 200},
              {1, longer, 0, 1, 0, 1000},
              {1, longer, 30'000, 1, 0, 1000},
              {1, longer, longer - 4097, 1, 0, 1000},
              {1, longer, longer - 1, 1, 0, 1000},
              {1, 1000, 999, 10, 7, 400}};
  for (const auto& row : rows) {
    SCOPED_TRACE(testing::Message() << "row " << &row - rows);
    const auto stripes = stripes_of(2, 2, row.bytes, false, row.stripes);
    Build build(sample(row.every), at(1, row.byte, row.stripe));
    const Router router = build.router();
    for (unsigned call = 0; call < row.calls && build.validator.off() == 0; ++call)
      ASSERT_EQ(router.transform_all(stripes.jobs()), Status::ok);
    EXPECT_EQ(build.validator.off(), 1u);
    EXPECT_EQ(stripes.right(), true) << "all of the call in which it was caught is put right";
  }
}

TEST(ValidateSample, TakesOneCallInSoManyAtNoFixedDistance) {
  constexpr unsigned every = 50, calls = 200'000;
  Validator validator(sample(every));
  unsigned due = 0, shortest = calls, longest = 0;
  for (unsigned call = 0, last = 0; call < calls; ++call) {
    if (!validator.is_due(codec::this_thread())) continue;
    if (++due > 1) {
      shortest = std::min(shortest, call - last);
      longest = std::max(longest, call - last);
    }
    last = call;
  }
  EXPECT_NEAR(due, calls / every, 0.05 * calls / every);
  EXPECT_LT(shortest, 5u);
  EXPECT_GT(longest, 2 * every - 6);
  EXPECT_LT(longest, 2 * every);
}

TEST(ValidateSample, ThreadsDoNotAllTakeTheSameCall) {
  Validator validator(sample(1000));
  std::vector<unsigned> first(32);
  for (auto& call : first)
    std::thread([&] {
      while (!validator.is_due(codec::this_thread())) ++call;
    }).join();
  EXPECT_NE(std::ranges::min(first), std::ranges::max(first));
}

TEST(Validate, OffWatchesNobodyAndNobodyWatchesTheJudges) {
  const auto stripes = stripes_of(2, 2, 100);
  Build build({.every = 0, .whole = false}, at(0, 0));
  EXPECT_FALSE(build.validator.watches(BackendKind::device));
  EXPECT_EQ(code(build.router(), stripes), Status::ok);
  EXPECT_EQ(stripes.right(), false);
  EXPECT_EQ(build.validator.counts()[0].checked, 0u);
  EXPECT_FALSE(codec::no_validation().watches(BackendKind::coder));
  const Validator validator(always);
  for (const auto kind : {BackendKind::device, BackendKind::coder}) EXPECT_TRUE(validator.watches(kind));
  for (const auto kind : {BackendKind::judge, BackendKind::floor}) EXPECT_FALSE(validator.watches(kind));
}

TEST(ThreadsValidate, EveryCallIsRightWhileALiarIsFoundOut) {
  Build build(always, at(0, 9));
  std::atomic<unsigned> wrong{0};
  in_threads(8, [&](unsigned t) {
    for (unsigned call = 0; call < 50; ++call) {
      const auto stripes = stripes_of(3, 2, 500, call % 2 != 0, 1, t);
      wrong += code(build.router(), stripes) != Status::ok || stripes.right() != true;
    }
  });
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(logged.size(), 1u);
  EXPECT_GE(build.validator.counts()[0].mismatches, 1u);
}

}  // namespace
}  // namespace ec::test
