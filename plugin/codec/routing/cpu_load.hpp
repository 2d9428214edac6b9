// How contended the cores of this machine are.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ec::codec {

/// Threads of the machine that run or wait for a core, out of a text like /proc/loadavg's; nothing if it is
/// no such text.
std::optional<unsigned> runnable_threads(std::string_view loadavg) noexcept;

/// Thread safe; never throws, and where nothing can be read the cores are free.
class CpuLoad {
 public:
  /// Above, it makes no difference who waits for what.
  static constexpr double most = 8;
  /// Between readings. Each counts a quarter, since threads come and go within a millisecond, and what is
  /// older than `memory` nothing.
  static constexpr std::chrono::milliseconds interval{10};
  static constexpr std::chrono::milliseconds memory{100};

  /// cores: of the machine, 1 at least. path: of /proc/loadavg.
  CpuLoad(unsigned cores, std::string path);

  /// By how much longer work on a core takes, because threads share cores: 1 while there is a core for each
  /// that wants one, at most `most`. Reads the file if the last reading is older than `interval`, which takes
  /// a few microseconds; else some tens of nanoseconds.
  double stretch() noexcept;

 private:
  void read(double weight) noexcept;

  const unsigned cores_;
  const std::string path_;
  std::atomic<std::int64_t> due_ns_{0};
  std::atomic<double> runnable_{0};
};

/// This machine's.
CpuLoad& cpu_load();

}  // namespace ec::codec
