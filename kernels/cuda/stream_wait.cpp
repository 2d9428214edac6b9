#include "kernels/cuda/stream_wait.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

namespace ec::kernels::cuda {
namespace {

/// Waits this long in a loop: a small job takes 16 us, and a sleep at least 50; measured on an H200, the
/// second sleep after 200 us in a loop made a job of 215 us take 311.
constexpr std::chrono::microseconds spin_time{1000};
constexpr std::chrono::microseconds sleep_time{50};
/// Added to the deadline for the bytes of a job: 1 GB/s, a fiftieth of what the link does.
constexpr std::size_t bytes_per_millisecond = 1'000'000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Outcome wait_for(Device& device, Device::Lane& lane, std::size_t bytes, bool writes_in_place) {
  using Clock = std::chrono::steady_clock;
  const Driver& driver = device.driver();
  const auto start = Clock::now();
  const auto patience = device.options().deadline + std::chrono::milliseconds(bytes / bytes_per_millisecond);
  for (;;) {
    const CUresult r = driver.stream_query(lane.stream());
    if (r == CUDA_SUCCESS) return {};
    if (r != CUDA_ERROR_NOT_READY)
      return {Status::fault, fmt::format("the kernel failed: {}", driver.error_name(r)), false};
    const auto now = Clock::now();
    if (now - start >= patience) break;
    if (now - start < spin_time)
      relax();
    else
      std::this_thread::sleep_for(sleep_time);
  }
  // Whatever the kernel may still touch is given up: the stream, the device, and by the caller its memory.
  lane.abandon();
  device.abandon();
  return {writes_in_place ? Status::hung : Status::fault,
          fmt::format("no answer within {} ms",
                      std::chrono::duration_cast<std::chrono::milliseconds>(patience).count()),
          true};
}

}  // namespace ec::kernels::cuda
