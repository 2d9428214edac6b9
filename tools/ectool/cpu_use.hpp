// How much of this machine's CPUs other programs use.
#pragma once

#include <optional>
#include <string_view>

namespace ec::tools {

/// Seconds of all CPUs together since the machine started, those of a virtual machine's host among the busy
/// ones.
struct CpuTime {
  double busy_s = 0, all_s = 0;
};

/// From the text of /proc/stat, in ticks of so many a second. Nothing if it has no line of all CPUs.
std::optional<CpuTime> cpu_time(std::string_view proc_stat, double ticks_per_second);

/// Share of the CPUs' time between two readings that was busy, less `own_s`: 0 to 1.
double share_of_others(const CpuTime& before, const CpuTime& after, double own_s);

/// Counts from its making on. One thread.
class OtherPrograms {
 public:
  /// Throws std::runtime_error where /proc/stat cannot be used.
  OtherPrograms();
  /// The share of the time of all CPUs that neither this process nor its ended children took: 0 to 1. Counted
  /// in ticks of 10 ms. Throws as above.
  double share() const;

 private:
  CpuTime before_;
  double own_before_s_;
};

}  // namespace ec::tools
