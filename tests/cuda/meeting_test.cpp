// Calls that meet: who launches, who goes along, and that everybody hears of it; with the emulated driver,
// that they are one launch and come out right.
#include "kernels/cuda/meeting.hpp"

#include <algorithm>
#include <atomic>
#include <latch>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kernels/cuda/device_job.hpp"
#include "tests/cuda/emulated.hpp"
#include "tests/support/arena.hpp"
#include "tests/support/conformance.hpp"
#include "tests/support/random_bytes.hpp"

namespace ec::test {
namespace {

using kernels::Job;
using kernels::Program;
using kernels::Residence;
using kernels::Status;
using kernels::cuda::Meeting;

/// Has `late` calls arrive, one a thread and in order, while an earlier one is being launched; the sizes of
/// the parties in the order of their launches.
class Gathering {
 public:
  std::vector<std::size_t> parties(const std::vector<Job>& late, Meeting::Coder code = {}) {
    std::vector<std::size_t> sizes;
    std::latch launching(1), arrived(1);
    const auto coder = [&](std::span<const Job> party, const std::function<void()>& launched) {
      sizes.push_back(party.size());  // launches do not overlap, so no lock
      if (sizes.size() == 1) {
        launching.count_down();
        arrived.wait();
      }
      if (sizes.size() > 1 && code) return code(party, launched);
      launched();
      return kernels::cuda::Outcome{};
    };
    const Program program(to_matrix({{1}}));
    std::vector<std::thread> threads;
    threads.emplace_back([&] { early_ = meeting_.attend({&program, {}, {}, 1}, coder).status; });
    launching.wait();
    outcomes_.assign(late.size(), Status::unsupported);
    for (std::size_t i = 0; i < late.size(); ++i) {
      threads.emplace_back([&, i] { outcomes_[i] = meeting_.attend(late[i], coder).status; });
      while (meeting_.waiting() <= i) std::this_thread::yield();
    }
    arrived.count_down();
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(early_, Status::ok);
    return sizes;
  }

  const std::vector<Status>& outcomes() const { return outcomes_; }

 private:
  Meeting meeting_;
  Status early_ = Status::unsupported;
  std::vector<Status> outcomes_;
};

using Sizes = std::vector<std::size_t>;

TEST(Meetings, WhoeverComesDuringALaunchGoesInTheNext) {
  const Program program(to_matrix({{1}}));
  const Job job{&program, {}, {}, 1};
  EXPECT_EQ(Gathering().parties({}), Sizes{1});
  EXPECT_EQ(Gathering().parties({job}), (Sizes{1, 1}));
  EXPECT_EQ(Gathering().parties({job, job, job}), (Sizes{1, 3}));
}

TEST(Meetings, OnlyAlikeJobsGoTogether) {
  const Program program(to_matrix({{1}})), other(to_matrix({{2}}));
  const Job job{&program, {}, {}, 1}, longer{&program, {}, {}, 2}, another{&other, {}, {}, 1};
  EXPECT_EQ(Gathering().parties({job, longer, another, job, longer, job}), (Sizes{1, 3, 2, 1}));
}

TEST(Meetings, APartyHasABound) {
  const Program program(to_matrix({{1}}));
  const std::vector<Job> many(Meeting::most + 3, Job{&program, {}, {}, 1});
  EXPECT_EQ(Gathering().parties(many), (Sizes{1, Meeting::most, 3}));
}

TEST(Meetings, AllHearHowItEndedAndOthersGoOn) {
  const Program program(to_matrix({{1}}));
  const Job job{&program, {}, {}, 1}, longer{&program, {}, {}, 2};
  const std::map<std::string, std::pair<Meeting::Coder, Status>> ends{
      {"fault before the launch",
       {[](auto, const auto&) {
          return kernels::cuda::Outcome{Status::fault, "reason", false};
        },
        Status::fault}},
      {"hung after it",
       {[](auto, const auto& launched) {
          launched();
          return kernels::cuda::Outcome{Status::hung, "reason", true};
        },
        Status::hung}},
      {"no memory",
       {[](auto, const auto&) -> kernels::cuda::Outcome { throw std::bad_alloc(); }, Status::busy}},
  };
  for (const auto& [name, end] : ends) {
    Gathering gathering;
    EXPECT_EQ(gathering.parties({job, longer, job}, end.first), (Sizes{1, 2, 1})) << name;
    EXPECT_EQ(gathering.outcomes(), std::vector(3, end.second)) << name;
  }
}

TEST(Meetings, ManyThreadsAreAllServed) {
  constexpr unsigned threads = 16, rounds = 2000;
  const Program program(to_matrix({{1}}));
  Meeting meeting;
  std::atomic<unsigned> jobs{0}, under_way{0}, overlaps{0};
  const auto coder = [&](std::span<const Job> party, const std::function<void()>& launched) {
    if (++under_way != 1) ++overlaps;
    jobs += static_cast<unsigned>(party.size());
    --under_way;
    launched();
    return kernels::cuda::Outcome{};
  };
  std::vector<std::thread> running;
  for (unsigned t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      for (unsigned i = 0; i < rounds; ++i)
        EXPECT_EQ(meeting.attend({&program, {}, {}, t % 3}, coder).status, Status::ok);
    });
  for (auto& thread : running) thread.join();
  EXPECT_EQ(jobs, threads * rounds);
  EXPECT_EQ(overlaps, 0u);
}

/// A pinned stripe of its own for each call, coded by the oracle.
struct PinnedStripe {
  PinnedStripe(Arena& arena, const oracle::Rows& matrix, std::size_t bytes, std::uint64_t seed) {
    const auto data = Random(seed).chunks(static_cast<unsigned>(matrix[0].size()), bytes);
    expected = oracle::apply(matrix, data);
    for (const auto& chunk : data) chunks.emplace_back(arena, chunk, 0);
    for (const auto& chunk : expected) chunks.emplace_back(arena, oracle::Bytes(chunk.size(), 0xee), 0);
    for (std::size_t i = 0; i < chunks.size(); ++i)
      if (i < data.size())
        sources.push_back(chunks[i].source());
      else
        targets.push_back(chunks[i].target());
  }
  Job job(const Program& program) const { return {&program, sources, targets, expected[0].size()}; }
  bool right() const {
    for (std::size_t i = 0; i < targets.size(); ++i)
      if (!std::equal(expected[i].begin(), expected[i].end(), targets[i].data)) return false;
    return true;
  }

  std::vector<oracle::Bytes> expected;
  std::vector<GuardedChunk> chunks;
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
};

class SharedLaunches : public EmulatedDevice {
 protected:
  static constexpr std::size_t bytes = 4096;

  void SetUp() override {
    // By its name the device room finds the library that is open already.
    ASSERT_NE(dlopen(EC_EMULATED_NVRTC, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
    EmulatedDevice::SetUp();
    auto o = options();
    o.share_up_to_bytes = 1 << 20;
    o.generate_after_bytes = 0;
    o.deadline = std::chrono::seconds(5);
    use(o);
    ASSERT_TRUE(bring_up()) << log_;
    pinned_ = cuda_arena(Residence::pinned);
    ASSERT_TRUE(pinned_);
    for (std::uint64_t i = 0; i < 6; ++i) stripes_.emplace_back(*pinned_, matrix_, bytes, i);
    device_ = kernels::cuda::Devices::instance().current();
  }
  void TearDown() override {
    stripes_.clear();
    device_.reset();
    pinned_.reset();
    EmulatedDevice::TearDown();
  }

  bool may_share() {
    return kernels::cuda::may_share_a_launch(device_, stripes_[0].job(program_),
                                             kernels::cuda::KernelKind::automatic);
  }
  void wait_for_the_kernel() {
    for (int i = 0; i < 5000 && !may_share(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(may_share());
    driver_->reset();
  }
  /// One call first, whose launch takes its time, then the others in threads of their own.
  std::vector<Status> code_all() {
    std::vector<Status> answers(stripes_.size(), Status::unsupported);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < stripes_.size(); ++i) {
      threads.emplace_back(
          [&, i] { answers[i] = kernels::cuda::backend().transform(stripes_[i].job(program_)); });
      while (driver_->calls("cuLaunchKernel") == 0 || device_->meeting().waiting() < i)
        std::this_thread::yield();
    }
    for (auto& thread : threads) thread.join();
    return answers;
  }

  const oracle::Rows matrix_ = random_matrix(3, 8, 1);
  const Program program_{to_matrix(matrix_)};
  std::unique_ptr<Arena> pinned_;
  std::vector<PinnedStripe> stripes_;
  std::shared_ptr<kernels::cuda::Device> device_;
};

TEST_F(SharedLaunches, CodeWhatCameDuringALaunchInOne) {
  ASSERT_NO_FATAL_FAILURE(wait_for_the_kernel());
  ASSERT_EQ(driver_->plan("cuLaunchKernel:nth=1:slow=500ms"), nullptr);
  EXPECT_EQ(code_all(), std::vector(6, Status::ok));
  EXPECT_EQ(driver_->calls("cuLaunchKernel"), 2u);
  for (const auto& stripe : stripes_) EXPECT_TRUE(stripe.right());
}

TEST_F(SharedLaunches, AFaultIsHeardByAll) {
  ASSERT_NO_FATAL_FAILURE(wait_for_the_kernel());
  ASSERT_EQ(driver_->plan("cuLaunchKernel:nth=1:slow=500ms;cuLaunchKernel:nth=1:CUDA_ERROR_INVALID_VALUE"),
            nullptr);
  std::vector<Status> expected(6, Status::fault);
  expected[0] = Status::ok;
  EXPECT_EQ(code_all(), expected);
  EXPECT_TRUE(stripes_[0].right());
  EXPECT_EQ(kernels::cuda::Devices::instance().current(), nullptr) << "the device is latched off";
}

TEST_F(SharedLaunches, AreForShortPinnedAlignedChunksWhoseKernelIsThere) {
  ASSERT_NO_FATAL_FAILURE(wait_for_the_kernel());
  const auto may = [&](Job job, kernels::cuda::KernelKind kind = kernels::cuda::KernelKind::automatic) {
    return kernels::cuda::may_share_a_launch(device_, job, kind);
  };
  const Job job = stripes_[0].job(program_);
  EXPECT_TRUE(may(job));
  EXPECT_FALSE(may(job, kernels::cuda::KernelKind::tile));
  Job longer = job;
  longer.bytes = (1 << 20) / 8 + 1;
  EXPECT_FALSE(may(longer));
  std::vector<kernels::Source> sources = stripes_[0].sources;
  Job elsewhere = job;
  elsewhere.sources = sources;
  sources[7].residence = Residence::pageable;
  EXPECT_FALSE(may(elsewhere));
  sources = stripes_[0].sources;
  sources[3].data += 1;
  EXPECT_FALSE(may(elsewhere));
  auto o = options();
  use(o);
  ASSERT_TRUE(bring_up());
  device_ = kernels::cuda::Devices::instance().current();
  EXPECT_FALSE(may(job)) << "not by default";
}

}  // namespace
}  // namespace ec::test
