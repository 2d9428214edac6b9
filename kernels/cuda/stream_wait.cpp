#include "kernels/cuda/stream_wait.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace ec::kernels::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// Below, a sleep costs more than it saves: a job of 4 KiB chunks takes 14 us.
constexpr std::chrono::microseconds worth_a_sleep{40};
/// Of the expected time, the part that is slept at once.
constexpr double slept_at_once = 0.9;
/// After that, looks are this far apart, or this part of the time so far: what a look costs and what it may
/// be late stay in proportion.
constexpr std::chrono::microseconds shortest_look{5};
constexpr int looks = 32;
/// Without it, the kernel may add 50 us to every sleep.
constexpr unsigned long slack_nanoseconds = 1000;
/// Added to the deadline for the bytes of a job: 1 GB/s, a fiftieth of what the link does.
constexpr std::size_t bytes_per_millisecond = 1'000'000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Exact sleeps for this thread while it lives.
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

/// Asks until `done` says so or the patience is over; whether it was done.
template <class Done>
bool poll(Clock::time_point start, Clock::duration expected, Clock::duration patience, Done&& done) {
  if (expected < worth_a_sleep) {
    for (;;) {
      if (done()) return true;
      if (Clock::now() - start >= worth_a_sleep) break;
      relax();
    }
  }
  const ShortSlack slack;
  if (expected >= worth_a_sleep)
    std::this_thread::sleep_until(start +
                                  std::chrono::duration_cast<Clock::duration>(slept_at_once * expected));
  for (;;) {
    if (done()) return true;
    const auto elapsed = Clock::now() - start;
    if (elapsed >= patience) return false;
    std::this_thread::sleep_for(std::max<Clock::duration>(shortest_look, elapsed / looks));
  }
}

}  // namespace

Outcome wait_for(Device& device, Device::Lane& lane, const Work& work) {
  const Driver& driver = device.driver();
  const auto start = Clock::now();
  const auto patience =
      device.options().deadline + std::chrono::milliseconds(work.bytes / bytes_per_millisecond);
  CUresult answer = CUDA_ERROR_NOT_READY;
  const auto expected =
      std::chrono::duration_cast<Clock::duration>(device.link_clock().expected(work.link_bytes));
  unsigned questions = 0;
  const bool answered = poll(start, std::min<Clock::duration>(expected, patience), patience, [&] {
    ++questions;
    answer = driver.stream_query(lane.stream());
    return answer != CUDA_ERROR_NOT_READY;
  });
  if (answer == CUDA_SUCCESS) {
    device.link_clock().observed(work.link_bytes, Clock::now() - start, questions == 1);
    return {};
  }
  if (answered)
    return {Status::fault, fmt::format("the kernel failed: {}", driver.error_name(answer)), false};
  // Whatever the kernel may still touch is given up: the stream, the device, and by the caller its memory.
  lane.abandon();
  device.abandon();
  return {work.writes_in_place ? Status::hung : Status::fault,
          fmt::format("no answer within {} ms",
                      std::chrono::duration_cast<std::chrono::milliseconds>(patience).count()),
          true};
}

}  // namespace ec::kernels::cuda
