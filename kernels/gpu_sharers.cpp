// Processes on GPUs, by the sockets that the driver makes for each.
#include "kernels/gpu_sharers.hpp"

#include <fcntl.h>

#include <new>
#include <set>
#include <string>
#include <string_view>

#include "kernels/device_stats.hpp"
#include "support/files.hpp"

namespace ec::kernels {

std::size_t gpu_sharers() noexcept try {
  if (read(device_stats().shared_by_mps) != 0) return 0;
  constexpr std::size_t most = std::size_t{64} << 20;
  // "@cuda-uvmfd-NAMESPACE-PID@", seen with driver 580.
  constexpr std::string_view name = "@cuda-uvmfd-";
  std::string sockets;
  if (support::read_file(AT_FDCWD, "/proc/net/unix", support::Trust::anyone, most, &sockets, nullptr) != 0)
    return 0;
  std::set<std::string_view> processes;
  const std::string_view text = sockets;
  for (auto at = text.find(name); at != text.npos; at = text.find(name, at + 1))
    processes.insert(text.substr(at, text.find('\n', at) - at));
  return processes.empty() ? 0 : processes.size() - 1;
} catch (const std::bad_alloc&) {
  return 0;
}

}  // namespace ec::kernels
