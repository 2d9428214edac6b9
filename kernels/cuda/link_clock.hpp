// How long jobs over the link to the host take, learned from those that were.
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

  /// What a job that moves `bytes` in its busier direction is expected to take.
  Duration expected(std::size_t bytes) const {
    return start_up + Duration(static_cast<double>(bytes) * seconds_a_byte_.load(std::memory_order_relaxed));
  }
  /// What one took. overslept: it was done when it was first looked at, some time before that.
  void observed(std::size_t bytes, Duration took, bool overslept) {
    if (bytes < least_bytes || took <= start_up) return;
    const double now = (took - start_up).count() / static_cast<double>(bytes);
    const double before = seconds_a_byte_.load(std::memory_order_relaxed);
    // It follows the link when nobody else uses it: down fast, since a sleep too long costs more than a few
    // looks; up by little a call, so that a crowd of some calls is not taken for the link.
    const double next = overslept      ? std::min(now, before) * 0.7
                        : now < before ? (now + before) / 2
                                       : std::min(now, before * 1.005);
    seconds_a_byte_.store(next, std::memory_order_relaxed);
  }

 private:
  /// Launch, and the way there and back; measured on an H200.
  static constexpr Duration start_up{14e-6};
  static constexpr std::size_t least_bytes = 256 * 1024;
  /// At first that of PCIe 5 x16.
  std::atomic<double> seconds_a_byte_{1 / 50e9};
};

}  // namespace ec::kernels::cuda
