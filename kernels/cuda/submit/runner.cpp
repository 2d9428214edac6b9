// The parts of the runner that are the same for every submission. The wait polls the stream with sleeps
// between, and tells an end of the work from an error that leaves the end open.
#include "kernels/cuda/submit/runner.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <thread>

namespace ec::kernels::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// For less time a sleep costs more than it saves: a job of 4 KiB chunks takes 14 us.
constexpr std::chrono::microseconds worth_a_sleep{40};
/// The part of the expected time that is slept at once. From then on the thread polls without a pause for the
/// rest and as long again, but no longer than a few sleeps would cost.
constexpr double slept_at_once = 0.9;
constexpr std::chrono::microseconds longest_stare{40};
/// After that, polls are this part of the time so far apart, within bounds: the cost of a poll and its delay
/// stay in proportion.
constexpr int looks = 32;
constexpr std::chrono::microseconds shortest_pause{5};
constexpr std::chrono::microseconds longest_pause{60};
/// With the default slack, the kernel may add 50 us to every sleep.
constexpr unsigned long slack_nanoseconds = 1000;
/// Added to the deadline for the bytes of a job: 1 GB/s, a fiftieth of the link's speed.
constexpr std::size_t bytes_per_millisecond = 1'000'000;

/// Exact sleeps for this thread while the object lives.
class ShortSlack {
 public:
  ShortSlack() : before_(prctl(PR_GET_TIMERSLACK)) { prctl(PR_SET_TIMERSLACK, slack_nanoseconds); }
  ~ShortSlack() {
    if (before_ > 0) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(before_));
  }
  ShortSlack(const ShortSlack&) = delete;
  ShortSlack& operator=(const ShortSlack&) = delete;

 private:
  int before_;
};

/// Polls without a pause until `done` is true or `until` has come; whether `done` was true.
template <class Done>
bool stare(Clock::time_point until, Done&& done) {
  for (;;) {
    if (done()) return true;
    if (Clock::now() >= until) return false;
  }
}

/// Polls until `done` is true or the patience is over; whether `done` was true.
template <class Done>
bool poll(Clock::time_point start, Clock::duration expected, Clock::duration patience, Done&& done) {
  if (expected < worth_a_sleep && stare(start + worth_a_sleep, done)) return true;
  const ShortSlack slack;
  if (expected >= worth_a_sleep) {
    const auto slept = std::chrono::duration_cast<Clock::duration>(slept_at_once * expected);
    std::this_thread::sleep_until(start + slept);
    const auto stared = std::min<Clock::duration>(2 * (expected - slept), longest_stare);
    if (stare(start + std::min(slept + stared, patience), done)) return true;
  }
  for (;;) {
    const auto elapsed = Clock::now() - start;
    if (elapsed >= patience) return done();
    std::this_thread::sleep_for(std::clamp<Clock::duration>(elapsed / looks, shortest_pause, longest_pause));
    if (done()) return true;
  }
}

}  // namespace

Reason Outcome::reason(const Driver& driver) const noexcept {
  if (call != nullptr) return {"{}: {}", call, driver.error_name(answer).view()};
  if (waited.count() == 0) return name(status);
  if (answer == CUDA_ERROR_NOT_READY) return {"no answer within {} ms", waited.count()};
  return {"no answer within {} ms, only {}", waited.count(), driver.error_name(answer).view()};
}

Runner::Runner(Device& device) : device_(device), scope_(device) {
  outcome_ = outcome_of("cuCtxPushCurrent", scope_.result());
  if (!ok()) return;
  lane_ = device.borrow_lane();
  if (!lane_) outcome_ = {Status::busy};
}

Runner::~Runner() {
  if (in_flight_) wait();
}

bool Runner::wait(Clock::duration under_way) {
  const Outcome waited = ask_until_over(under_way);
  in_flight_.reset();
  // A submission may be several launches: when a later one fails, the earlier ones are still waited for.
  outcome_ = waited.status != Status::ok ? waited : launched_;
  return ok();
}

Outcome Runner::ask_until_over(Clock::duration under_way) {
  const auto start = Clock::now();
  const Clock::duration allowed =
      device_.options().deadline + std::chrono::milliseconds(submission_.moved_bytes / bytes_per_millisecond);
  const auto expected = std::chrono::duration_cast<Clock::duration>(in_flight_->expected()) - under_way;
  CUresult answer = CUDA_ERROR_NOT_READY;
  unsigned questions = 0;
  const bool answered = poll(start, std::clamp(expected, Clock::duration::zero(), allowed), allowed, [&] {
    ++questions;
    answer = device_.driver().stream_query(lane_->stream);
    return is_over(answer);
  });
  if (answer == CUDA_SUCCESS) {
    // The end of work that nobody waited for is not known.
    if (under_way == Clock::duration::zero()) in_flight_->took(Clock::now() - start, questions == 1);
    return {};
  }
  if (answered) {
    Outcome failed = outcome_of("the kernel failed", answer);
    // MPS reports the fault of one client to all, while the kernels of the others may still run: on an H100
    // buffers that were used anew after such a fault had wrong bytes.
    if (device_.info().shared_by_mps != 0 && submission_.writes_in_place) failed.status = Status::hung;
    return failed;
  }
  // Everything that the kernel may still touch is given up: the stream, its memory, the device.
  static_cast<void>(lane_.release());
  device_.abandon();
  return {submission_.writes_in_place ? Status::hung : Status::fault, nullptr, answer,
          std::chrono::ceil<std::chrono::milliseconds>(allowed)};
}

}  // namespace ec::kernels::cuda
