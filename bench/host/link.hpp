// What the link and the device's memory can do for a mix of bytes read and written: the ceiling of `ec_bench
// host`.
#pragma once

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "bench/common/random.hpp"
#include "bench/common/workers.hpp"
#include "bench/gpu/gpu.hpp"
#include "tools/device/memory.hpp"

namespace ec::bench {

/// The links of some devices: the memory that transfers go between, and the clocks on them.
class Links {
 public:
  /// devices: all of Options::devices, in order. bytes: read and written by one transfer over each link, at
  /// least 1 MiB. Throws std::runtime_error.
  Links(std::span<const std::shared_ptr<Device>> devices, std::size_t bytes) : bytes_(bytes) {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const Link& link = links_.emplace_back(devices[i], i, bytes);
      in_parallel((bytes + piece - 1) / piece, [&](std::size_t p) {
        fill_random({link.pinned.data() + p * piece, std::min(piece, bytes - p * piece)}, p);
      });
    }
  }

  /// Source GB/s of k chunks that are read, where `targets` are written and nothing is computed. In host
  /// memory: over the links of all devices at once, by copies in both directions on two streams; a kernel
  /// that only XORs in pinned memory is never faster. In device memory: a copy within that of the first
  /// device. Throws std::runtime_error, also if the copies do not write to their end.
  double source_gbps(bool on_device, unsigned k, unsigned targets) {
    const std::size_t chunk = bytes_ / (k + targets);
    const std::size_t in = k * chunk, out = targets * chunk;
    if (on_device) {
      Link& link = links_.front();
      const CUdeviceptr at = gpu_address(link.device_memory.data());
      link.timer.start([&](CUstream one, CUstream) { copy_on_device(at + bytes_, at, bytes_, one); });
      // A copy reads and writes as much; a code reads k parts and writes `targets` of the same sum.
      return 2e-9 * static_cast<double>(bytes_) * k / (k + targets) / link.timer.finish();
    }
    const std::vector<std::uint8_t> spoilt(end_bytes, 0x5a);
    const auto end_of = [&](const Link& link) { return link.pinned.data() + in + out - end_bytes; };
    for (const Link& link : links_) std::memcpy(end_of(link), spoilt.data(), end_bytes);
    for (Link& link : links_)
      link.timer.start([&](CUstream one, CUstream other) {
        const CUdeviceptr at = gpu_address(link.device_memory.data());
        const auto& driver = link.timer.device()->driver();
        require(driver.memcpy_htod_async(at, link.pinned.data(), in, one), "cuMemcpyHtoDAsync");
        require(driver.memcpy_dtoh_async(link.pinned.data() + in, at + bytes_, out, other),
                "cuMemcpyDtoHAsync");
      });
    // Until the last link is done. Links start one after the other within microseconds, and each by its own
    // clock.
    double longest = 0;
    for (Link& link : links_) longest = std::max(longest, link.timer.finish());
    for (const Link& link : links_)
      if (std::memcmp(end_of(link), spoilt.data(), end_bytes) == 0)
        throw std::runtime_error("copies, which measure the link, did not move their bytes");
    return 1e-9 * static_cast<double>(links_.size() * in) / longest;
  }

 private:
  static constexpr std::size_t piece = std::size_t{1} << 20, end_bytes = 1024;

  struct Link {
    Link(const std::shared_ptr<Device>& device, std::size_t index, std::size_t bytes)
        : timer(device),
          pinned(kernels::Residence::pinned, bytes, index),
          device_memory(kernels::Residence::device, 2 * bytes, index) {}

    GpuTimer timer;
    tools::Memory pinned;
    tools::Memory device_memory;  ///< twice as many bytes
  };

  std::size_t bytes_;
  std::list<Link> links_;
};

}  // namespace ec::bench
