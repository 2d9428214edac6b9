// Runs the work of one job on one lane of a device, whatever the work is.
#pragma once

#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/device/outcome.hpp"
#include "kernels/cuda/device/stream_wait.hpp"

namespace ec::kernels::cuda {

/// Holds a lane, and makes the device's context current, while it lives. A job runs in submissions, one after
/// the other: each is counted in flight, enqueued on the lane, and waited for with the deadline. If the
/// device does not answer, the lane is given up with its memory, and so is the device. After anything but ok
/// no other submission is run. For one thread.
class Runner {
 public:
  /// outcome() is a fault if the context cannot be made current, and busy if no lane is free.
  explicit Runner(Device& device);
  /// Waits for what was launched.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  bool ok() const { return outcome_.status == Status::ok; }
  /// ok; or what went wrong.
  const Outcome& outcome() const { return outcome_; }
  /// While ok() holds.
  const Device::Lane& lane() const { return *lane_; }

  /// launch() and wait(), and nothing in between: how long it took teaches how long to sleep.
  template <class Enqueue>
  bool run(const Submission& submission, Enqueue&& enqueue) {
    launch(submission, enqueue);
    return wait(Clock::duration::zero());
  }

  /// Enqueues a submission: enqueue(stream) returns an Outcome. Where that is not ok, some of the submission
  /// may be under way, and wait() will tell. ok() holds, and no other submission is under way.
  template <class Enqueue>
  void launch(const Submission& submission, Enqueue&& enqueue) {
    submission_ = submission;
    in_flight_.emplace(device_.link_clock(), submission.link_bytes);
    try {
      launched_ = enqueue(lane_->stream());
    } catch (const std::bad_alloc&) {
      launched_ = {Status::fault, {}};
    }
    launched_at_ = Clock::now();
  }
  /// Waits for the submission that was launched; ok().
  bool wait() { return wait(Clock::now() - launched_at_); }

 private:
  using Clock = std::chrono::steady_clock;
  bool wait(Clock::duration under_way);

  Device& device_;
  const Device::Scope scope_;
  std::optional<Device::Lane> lane_;
  Outcome outcome_;
  Submission submission_;
  std::optional<LinkClock::InFlight> in_flight_;
  Outcome launched_;
  Clock::time_point launched_at_;
};

}  // namespace ec::kernels::cuda
