// Tests the test: back ends with one fault each, which the conformance check must report.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "kernels/reference/reference.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/lying_backend.hpp"

namespace ec::test {
namespace {

using kernels::Job;
using kernels::Status;

using Spoil = std::function<void(const Job&)>;

Outcome run_spoiled(const Spoil& spoil, Verb verb = Verb::transform) {
  LyingBackend backend("spoiled", kernels::BackendKind::coder, kernels::reference_backend(),
                       [&](auto jobs) { spoil(jobs[0]); });
  const auto arena = pageable_arena();
  return run_case(backend, {random_matrix(3, 5, 1), 500, verb, {}, {}, 1}, *arena);
}

/// Expects that the check fails, and says where.
void expect_seen(const Spoil& spoil, const std::string& where, Verb verb = Verb::transform) {
  const auto outcome = run_spoiled(spoil, verb);
  EXPECT_EQ(outcome.verdict, Verdict::failed);
  EXPECT_NE(outcome.reason.find(where), std::string::npos) << outcome.reason;
}

TEST(WrongBackend, TheHonestOnePasses) {
  for (const auto verb : {Verb::transform, Verb::accumulate}) {
    const auto outcome = run_spoiled([](const Job&) {}, verb);
    EXPECT_EQ(outcome.verdict, Verdict::passed) << outcome.reason;
  }
}

TEST(WrongBackend, OneFlippedBitAnywhereIsSeen) {
  for (const auto verb : {Verb::transform, Verb::accumulate})
    for (unsigned target = 0; target < 3; ++target)
      for (const std::size_t at : {0u, 1u, 250u, 498u, 499u})
        for (unsigned bit = 0; bit < 8; ++bit)
          expect_seen([&](const Job& job) { flip(job, target, at, static_cast<std::uint8_t>(1u << bit)); },
                      "target " + std::to_string(target), verb);
}

TEST(WrongBackend, AWriteJustOutsideATargetIsSeen) {
  for (const std::ptrdiff_t at : {-64, -1, 500, 563})
    expect_seen([&](const Job& job) { job.targets[1].data[at] ^= 1; }, "guard");
}

TEST(WrongBackend, AChangedSourceIsSeen) {
  expect_seen([](const Job& job) { const_cast<std::uint8_t*>(job.sources[4].data)[123] ^= 1; }, "source 4");
}

/// Does nothing, and answers the same to everything.
class Idle final : public kernels::Backend {
 public:
  explicit Idle(Status status) : status_(status) {}
  std::string_view name() const noexcept override { return "idle"; }
  kernels::BackendKind kind() const noexcept override { return kernels::BackendKind::coder; }
  bool supports(const Job&) const noexcept override { return true; }
  Status transform(const Job&) noexcept override { return status_; }
  Status accumulate(const Job&) noexcept override { return status_; }

 private:
  Status status_;
};

TEST(WrongBackend, DoingNothingAndAStatusOtherThanPromisedAreSeen) {
  const auto arena = pageable_arena();
  for (const auto status : {Status::ok, Status::unsupported, Status::busy, Status::fault, Status::hung})
    for (const auto verb : {Verb::transform, Verb::accumulate})
      for (const std::size_t bytes : {1u, 64u, 4096u}) {
        Idle idle(status);
        EXPECT_EQ(run_case(idle, {{{1, 2}}, bytes, verb, {}, {}, bytes}, *arena).verdict, Verdict::failed);
      }
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
