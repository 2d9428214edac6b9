// The options of the device room, set before its first use.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "support/text.hpp"

namespace ec::kernels::cuda {

/// Why a device is absent, or failed: a sentence.
using Reason = support::Text<255>;

inline constexpr std::size_t most_devices = 16;

struct Options {
  /// The driver's library as dlopen takes it.
  std::string driver_library = "libcuda.so.1";
  /// Ordinals of the GPUs, one at least, most_devices at most, no two alike. Absent GPUs are left out.
  std::vector<int> devices{0};
  /// Longest wait for one job before the device is given up.
  std::chrono::milliseconds deadline{2000};
  /// After a fault, the device is not tried again for this long.
  std::chrono::seconds retry_after{60};
  /// Pinned memory for staging, in bytes: allocated when the device comes up, in one piece that its lanes
  /// share evenly.
  std::size_t staging_bytes = std::size_t{64} << 20;
  /// Size of the arena for buffers that are page-locked from birth, and the size from which an allocation
  /// comes out of it (set by tests), in bytes; both only where the process runs with libec_cuda_pinned.so.
  std::size_t pinned_bytes = std::size_t{1} << 30;
  std::size_t pinned_threshold = std::size_t{32} << 10;
  /// Nobody else in this process uses a GPU, so that its context needs no more memory than our own kernels.
  bool alone_in_process = false;
  /// Called with one line when the device comes up, is latched off, or cannot be brought up (once in a row);
  /// from any thread. Null: silence.
  void (*log)(const char* line) = nullptr;

  friend bool operator==(const Options&, const Options&) = default;
};

/// Sets the options of this process. Takes effect when the device is next brought up; touches no device.
/// Thread safe, also in a child of fork(). Throws std::bad_alloc.
void configure(const Options& options);
/// Brings the device up now and waits for it. Whether it is up; else *why.
bool bring_up(Reason* why) noexcept;
/// The last options set. They stay in place for the life of the process. Thread safe.
const Options& current_options() noexcept;
inline std::size_t device_count() noexcept { return current_options().devices.size(); }

/// Logs one line through options.log. An exception of the host's function for want of memory ends here.
template <class... Args>
void log(const Options& options, fmt::format_string<Args...> format, Args&&... args) noexcept try {
  using Line = support::Text<1023>;
  if (options.log != nullptr)
    options.log(Line("ec_cuda: {}", Line(format, std::forward<Args>(args)...).view()).c_str());
} catch (const std::bad_alloc&) {
}

}  // namespace ec::kernels::cuda
