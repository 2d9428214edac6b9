// Runs the work of one job on one lane of a device, whatever the work is, and waits for it. The wait ends
// whatever the device does.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"

namespace ec::kernels::cuda {

/// How work on a device ended: a plain value, which no want of memory can change.
struct Outcome {
  Status status = Status::ok;
  // For fault and hung.
  const char* call = nullptr;  ///< the driver's function, or another name of the failed step; static
  CUresult answer = CUDA_SUCCESS;
  std::chrono::milliseconds waited{0};  ///< in vain; 0: the driver reported that the work itself failed

  Reason reason(const Driver& driver) const noexcept;
};

/// ok if a call of the driver succeeded, else a fault.
inline Outcome outcome_of(const char* call, CUresult result) noexcept {
  return result == CUDA_SUCCESS ? Outcome{} : Outcome{Status::fault, call, result};
}

/// Work that is enqueued on a lane at once, and waited for at once.
struct Submission {
  std::size_t link_bytes = 0;   ///< bytes over the link to the host, in the busier direction
  std::size_t moved_bytes = 0;  ///< bytes read and written in all, for which the deadline allows
  /// The work writes memory of the caller, so a late write could reach it: Status::hung instead of fault.
  bool writes_in_place = false;
};

/// Holds a lane, and makes the device's context current, while it lives. A job runs in submissions, one after
/// the other: each is counted in flight, enqueued on the lane, and waited for with the deadline, which counts
/// from the start of the wait. The wait sleeps until the work should nearly be done, where a sleep pays, and
/// polls often from then on. If the device does not answer, the lane is given up with its memory, and so is
/// the device. After any status but ok no other submission is run. For one thread.
class Runner {
 public:
  /// outcome() is a fault if the context cannot be made current, and busy if no lane is free.
  explicit Runner(Device& device);
  /// Waits for the work launched.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  bool ok() const { return outcome_.status == Status::ok; }
  /// ok; or the failure.
  const Outcome& outcome() const { return outcome_; }
  /// Only while ok() holds.
  const Device::Lane& lane() const { return *lane_; }

  /// launch() and wait(), and nothing in between: the time of the work teaches how long to sleep.
  template <class Enqueue>
  bool run(const Submission& submission, Enqueue&& enqueue) {
    launch(submission, enqueue);
    return wait(Clock::duration::zero());
  }

  /// Enqueues a submission: enqueue(stream) returns an Outcome and does not throw. If the Outcome is not ok,
  /// some of the submission may be under way, and wait() will tell. Before: ok() holds, and no submission is
  /// under way.
  template <class Enqueue>
  void launch(const Submission& submission, Enqueue&& enqueue) {
    submission_ = submission;
    in_flight_.emplace(device_.link_clock(), submission.link_bytes);
    launched_ = enqueue(lane_->stream);
    launched_at_ = Clock::now();
  }
  /// Waits for the launched submission; returns ok().
  bool wait() { return wait(Clock::now() - launched_at_); }

 private:
  using Clock = std::chrono::steady_clock;
  /// under_way: the time since the launch, if the caller has done other work meanwhile.
  bool wait(Clock::duration under_way);
  Outcome ask_until_over(Clock::duration under_way);

  Device& device_;
  const Device::Scope scope_;
  Device::BorrowedLane lane_{nullptr, {&device_}};
  Outcome outcome_;
  Submission submission_;
  std::optional<LinkClock::InFlight> in_flight_;
  Outcome launched_;
  Clock::time_point launched_at_;
};

}  // namespace ec::kernels::cuda
