// Reads /proc/stat and what this process used.
#include "tools/ectool/cpu_use.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>

namespace ec::tools {
namespace {

CpuTime now() {
  std::ifstream file("/proc/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto found = cpu_time(text, static_cast<double>(sysconf(_SC_CLK_TCK)));
  if (!found) throw std::runtime_error("/proc/stat does not say how busy the CPUs are");
  return *found;
}

double own_s() {
  double seconds = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    struct rusage used {};
    getrusage(who, &used);
    for (const auto& time : {used.ru_utime, used.ru_stime})
      seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  }
  return seconds;
}

}  // namespace

std::optional<CpuTime> cpu_time(std::string_view proc_stat, double ticks_per_second) {
  std::istringstream line{std::string(proc_stat.substr(0, proc_stat.find('\n')))};
  std::string name;
  // user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in user too.
  std::array<double, 8> ticks{};
  line >> name;
  for (double& each : ticks) line >> each;
  if (!line || name != "cpu") return std::nullopt;
  CpuTime time;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    const bool is_idle = i == 3 || i == 4;
    time.all_s += ticks[i] / ticks_per_second;
    if (!is_idle) time.busy_s += ticks[i] / ticks_per_second;
  }
  return time;
}

double share_of_others(const CpuTime& before, const CpuTime& after, double own_s) {
  const double all_s = after.all_s - before.all_s;
  if (all_s <= 0) return 0;
  return std::clamp((after.busy_s - before.busy_s - own_s) / all_s, 0.0, 1.0);
}

OtherPrograms::OtherPrograms() : before_(now()), own_before_s_(own_s()) {}

double OtherPrograms::share() const { return share_of_others(before_, now(), own_s() - own_before_s_); }

}  // namespace ec::tools
