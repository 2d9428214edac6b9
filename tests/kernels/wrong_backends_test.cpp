// Tests the test: back ends with one fault each, which the conformance check must report.
#include <gtest/gtest.h>

#include <functional>

#include "kernels/reference/reference.hpp"
#include "tests/common/conformance.hpp"

namespace ec::test {
namespace {

using kernels::Job;
using kernels::Status;

/// The reference back end with `spoil` applied to the job after it ran.
class Spoiled final : public kernels::Backend {
 public:
  explicit Spoiled(std::function<Status(const Job&)> spoil) : spoil_(std::move(spoil)) {}
  std::string_view name() const noexcept override { return "spoiled"; }
  bool supports(const Job& job) const noexcept override { return kernels::reference_backend().supports(job); }
  Status transform(const Job& job) noexcept override {
    const Status status = kernels::reference_backend().transform(job);
    return status == Status::ok ? spoil_(job) : status;
  }
  Status accumulate(const Job& job) noexcept override {
    const Status status = kernels::reference_backend().accumulate(job);
    return status == Status::ok ? spoil_(job) : status;
  }

 private:
  std::function<Status(const Job&)> spoil_;
};

Outcome run_spoiled(std::function<Status(const Job&)> spoil, Verb verb = Verb::transform) {
  Spoiled backend(std::move(spoil));
  const auto arena = pageable_arena();
  return run_case(backend, {random_matrix(3, 5, 1), 500, verb, {}, {}, 1}, *arena);
}

TEST(WrongBackend, TheHonestOnePasses) {
  for (const auto verb : {Verb::transform, Verb::accumulate}) {
    const auto outcome = run_spoiled([](const Job&) { return Status::ok; }, verb);
    EXPECT_EQ(outcome.verdict, Verdict::passed) << outcome.reason;
  }
}

TEST(WrongBackend, OneFlippedBitAnywhereIsSeen) {
  for (const auto verb : {Verb::transform, Verb::accumulate})
    for (unsigned target = 0; target < 3; ++target)
      for (const std::size_t at : {0u, 1u, 250u, 498u, 499u})
        for (unsigned bit = 0; bit < 8; ++bit) {
          const auto outcome = run_spoiled(
              [&](const Job& job) {
                job.targets[target].data[at] ^= static_cast<std::uint8_t>(1u << bit);
                return Status::ok;
              },
              verb);
          EXPECT_EQ(outcome.verdict, Verdict::failed);
          EXPECT_NE(outcome.reason.find("target " + std::to_string(target)), std::string::npos)
              << outcome.reason;
        }
}

TEST(WrongBackend, AWriteJustOutsideATargetIsSeen) {
  for (const std::ptrdiff_t at : {-64, -1, 500, 563}) {
    const auto outcome = run_spoiled([&](const Job& job) {
      job.targets[1].data[at] ^= 1;
      return Status::ok;
    });
    EXPECT_EQ(outcome.verdict, Verdict::failed);
    EXPECT_NE(outcome.reason.find("guard"), std::string::npos) << outcome.reason;
  }
}

TEST(WrongBackend, AChangedSourceIsSeen) {
  const auto outcome = run_spoiled([](const Job& job) {
    const_cast<std::uint8_t*>(job.sources[4].data)[123] ^= 1;
    return Status::ok;
  });
  EXPECT_EQ(outcome.verdict, Verdict::failed);
  EXPECT_NE(outcome.reason.find("source 4"), std::string::npos) << outcome.reason;
}

TEST(WrongBackend, AStatusOtherThanPromisedIsSeen) {
  for (const auto status : {Status::unsupported, Status::busy, Status::fault, Status::hung})
    EXPECT_EQ(run_spoiled([&](const Job&) { return status; }).verdict, Verdict::failed);
}

/// Does nothing, and claims to have done it.
class Idle final : public kernels::Backend {
 public:
  std::string_view name() const noexcept override { return "idle"; }
  bool supports(const Job&) const noexcept override { return true; }
  Status transform(const Job&) noexcept override { return Status::ok; }
  Status accumulate(const Job&) noexcept override { return Status::ok; }
};

TEST(WrongBackend, DoingNothingIsSeen) {
  Idle idle;
  const auto arena = pageable_arena();
  for (const auto verb : {Verb::transform, Verb::accumulate})
    for (const std::size_t bytes : {1u, 64u, 4096u})
      EXPECT_EQ(run_case(idle, {{{1, 2}}, bytes, verb, {}, {}, bytes}, *arena).verdict, Verdict::failed);
}

#if !defined(__SANITIZE_THREAD__)
TEST(WrongBackendDeathTest, AnOverrunEndsTheProcessAtThePageEdge) {
  const auto edge = page_edge_arena();
  GuardedChunk chunk(*edge, std::vector<std::uint8_t>(100), 0);
  EXPECT_DEATH(chunk.data()[100] = 1, "");
}
#endif

}  // namespace
}  // namespace ec::test
