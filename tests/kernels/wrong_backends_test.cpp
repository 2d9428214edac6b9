// Tests the test: back ends with one fault each, which the conformance check must report.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backends.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/fake_backend.hpp"

namespace ec::test {
namespace {

using kernels::Job;

TEST(WrongBackend, IsSeenAndWhereItIsWrong) {
  std::vector<std::pair<std::string, std::function<void(const Job&)>>> wrongs{
      {"source 4", [](const Job& job) { const_cast<std::uint8_t*>(job.sources[4].data)[123] ^= 1; }}};
  for (const std::ptrdiff_t at : {-64, -1, 500, 563})
    wrongs.emplace_back("guard", [=](const Job& job) { job.targets[1].data[at] ^= 1; });
  for (unsigned target = 0; target < 3; ++target)
    for (const std::size_t at : {0u, 1u, 250u, 498u, 499u})
      for (unsigned bit = 0; bit < 8; ++bit)
        wrongs.emplace_back("target " + std::to_string(target), [=](const Job& job) {
          flip(job, target, at, static_cast<std::uint8_t>(1u << bit));
        });
  wrongs.emplace_back("", [](const Job&) {});  // the honest one
  const auto arena = pageable_arena();
  for (const auto verb : {Verb::transform, Verb::accumulate})
    for (const auto& [where, spoil] : wrongs) {
      FakeBackend backend("spoiled", kernels::BackendKind::coder, kernels::reference_backend(),
                          [&spoil = spoil](auto jobs) { spoil(jobs[0]); });
      const auto outcome = run_case(backend, {random_matrix(3, 5, 1), 500, verb, {}, {}, 1}, *arena);
      EXPECT_EQ(outcome.verdict, where.empty() ? Verdict::passed : Verdict::failed) << where;
      EXPECT_NE(outcome.reason.find(where), std::string::npos) << outcome.reason;
    }
}

/// A back end that supports a job must do it.
TEST(WrongBackend, AStatusOtherThanPromisedIsSeen) {
  const auto arena = pageable_arena();
  for (const auto status : {Status::unsupported, Status::busy, Status::fault, Status::hung})
    for (const auto verb : {Verb::transform, Verb::accumulate}) {
      FakeBackend backend("idle", kernels::BackendKind::coder, Status::ok);
      backend.meanwhile = [&] { backend.answer(status); };
      EXPECT_EQ(run_case(backend, {{{1, 2}}, 64, verb, {}, {}, 1}, *arena).verdict, Verdict::failed);
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
