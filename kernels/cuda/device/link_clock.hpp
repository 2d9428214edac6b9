// The expected time of a job over the link to the host, learned from jobs that had the link for themselves.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>

namespace ec::kernels::cuda {

/// Thread safe: a race loses an observation.
class LinkClock {
 public:
  using Duration = std::chrono::duration<double>;

  /// Counts a job as under way on the link while it lives, from before the launch.
  class InFlight {
   public:
    /// bytes: in the busier direction of the link.
    InFlight(LinkClock& clock, std::size_t bytes) : clock_(clock), bytes_(bytes) {
      const std::size_t jobs = clock_.jobs_.fetch_add(1, std::memory_order_relaxed) + 1;
      const std::size_t all = clock_.bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
      alone_ = jobs == 1;
      // Jobs share the link evenly, so each other job costs this one as much as its own bytes, or all it has.
      load_ = std::min(bytes * jobs, all);
    }
    ~InFlight() {
      clock_.jobs_.fetch_sub(1, std::memory_order_relaxed);
      clock_.bytes_.fetch_sub(bytes_, std::memory_order_relaxed);
    }
    InFlight(const InFlight&) = delete;
    InFlight& operator=(const InFlight&) = delete;

    /// The expected time from the launch, with the jobs under way at the start.
    Duration expected() const {
      return start_up +
             Duration(static_cast<double>(load_) * clock_.seconds_a_byte_.load(std::memory_order_relaxed));
    }
    /// Reports the real time. overslept: the job was done at the first look, some time before it.
    void took(Duration time, bool overslept) {
      if (alone_ && clock_.jobs_.load(std::memory_order_relaxed) == 1) clock_.learn(bytes_, time, overslept);
    }

   private:
    LinkClock& clock_;
    std::size_t bytes_;
    std::size_t load_ = 0;
    bool alone_ = false;
  };

  /// The number of jobs under way now.
  std::size_t jobs() const { return jobs_.load(std::memory_order_relaxed); }

 private:
  /// The launch, and the way there and back; measured on an H200.
  static constexpr Duration start_up{14e-6};
  static constexpr std::size_t least_bytes = 256 * 1024;

  void learn(std::size_t bytes, Duration took, bool overslept) {
    if (bytes < least_bytes || took <= start_up) return;
    const double now = (took - start_up).count() / static_cast<double>(bytes);
    const double before = seconds_a_byte_.load(std::memory_order_relaxed);
    // The time follows an unshared link: down fast, since a sleep too long costs more than a few looks; up
    // by little a call, so that other processes' traffic is not taken for the link.
    const double next = overslept      ? std::min(now, before) * 0.7
                        : now < before ? (now + before) / 2
                                       : std::min(now, before * 1.005);
    seconds_a_byte_.store(next, std::memory_order_relaxed);
  }

  std::atomic<std::size_t> jobs_{0};
  std::atomic<std::size_t> bytes_{0};
  /// At first the speed of PCIe 5 x16.
  std::atomic<double> seconds_a_byte_{1 / 50e9};
};

}  // namespace ec::kernels::cuda
