// What the link and the device's memory can do for a mix of bytes read and written: the ceiling of `ec_bench
// host`.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "bench/common/random.hpp"
#include "bench/common/stats.hpp"
#include "bench/common/workers.hpp"
#include "bench/gpu/gpu.hpp"
#include "tools/device/memory.hpp"

namespace ec::bench {

using tools::Memory;

/// The memory that transfers over the link of one device go between, and the clock on them.
struct Link {
  /// device_index: its place in Options::devices. bytes: read and written by one transfer, at least 1 MiB.
  /// Throws std::runtime_error.
  Link(const std::shared_ptr<Device>& device, std::size_t device_index, std::size_t bytes)
      : timer(device),
        pinned(kernels::Residence::pinned, bytes, device_index),
        device_memory(kernels::Residence::device, 2 * bytes, device_index) {
    constexpr std::size_t piece = std::size_t{1} << 20;
    in_parallel((bytes + piece - 1) / piece, [&](std::size_t i) {
      fill_random({pinned.data() + i * piece, std::min(piece, bytes - i * piece)}, i);
    });
  }

  GpuTimer timer;
  Memory pinned;
  Memory device_memory;  ///< twice as many bytes
};

/// Reads k chunks and writes `targets` with nothing computed. For host memory: over the links of all devices
/// at once, by copies in both directions on two streams; a kernel that only XORs in pinned memory is never
/// faster. For device memory: a copy within that of the first device.
class Ceiling {
 public:
  /// links: at least one; they outlive the ceiling. Throws std::runtime_error, also if copies over a link do
  /// not write to their end.
  Ceiling(std::span<const std::unique_ptr<Link>> links, bool on_device, unsigned k, unsigned targets)
      : links_(links.first(on_device ? 1 : links.size())),
        on_device_(on_device),
        bytes_(links.front()->pinned.size()) {
    const std::size_t chunk = bytes_ / (k + targets);
    in_ = k * chunk;
    out_ = targets * chunk;
    // A copy reads and writes as much; a code reads k parts and writes `targets` of the same sum.
    source_gb_ =
        1e-9 * static_cast<double>(links_.size()) *
        (on_device ? 2.0 * static_cast<double>(bytes_) * k / (k + targets) : static_cast<double>(in_));
    for (const auto& link : links_)
      std::memset(link->pinned.data() + in_ + out_ - end_bytes, spoilt, end_bytes);
    time();
    const std::vector<std::uint8_t> untouched(end_bytes, spoilt);
    for (const auto& link : links_)
      if (!on_device &&
          std::memcmp(link->pinned.data() + in_ + out_ - end_bytes, untouched.data(), end_bytes) == 0)
        throw std::runtime_error("copies, which measure the link, did not move their bytes");
  }

  void sample() { seconds_.push_back(time()); }
  /// GB/s of k chunks; at least one sample must be there.
  double source_gbps() const { return source_gb_ / median(seconds_); }

 private:
  static constexpr std::size_t end_bytes = 1024;
  static constexpr std::uint8_t spoilt = 0x5a;

  void enqueue(Link& link, CUstream one, CUstream other) const {
    const CUdeviceptr at = gpu_address(link.device_memory.data());
    const auto& driver = link.timer.device()->driver();
    if (on_device_)
      return require(gpu_driver().memcpy_dtod_async(at + bytes_, at, bytes_, one), "cuMemcpyDtoDAsync");
    require(driver.memcpy_htod_async(at, link.pinned.data(), in_, one), "cuMemcpyHtoDAsync");
    require(driver.memcpy_dtoh_async(link.pinned.data() + in_, at + bytes_, out_, other),
            "cuMemcpyDtoHAsync");
  }

  /// Until the last link is done. Links start one after the other within microseconds, and each by its own
  /// clock.
  double time() const {
    for (const auto& link : links_)
      link->timer.start([&](CUstream one, CUstream other) { enqueue(*link, one, other); });
    double longest = 0;
    for (const auto& link : links_) longest = std::max(longest, link->timer.finish());
    return longest;
  }

  std::span<const std::unique_ptr<Link>> links_;
  bool on_device_;
  std::size_t bytes_;  ///< of the memory of a transfer
  std::size_t in_ = 0, out_ = 0;
  double source_gb_ = 0;
  std::vector<double> seconds_;
};

}  // namespace ec::bench
