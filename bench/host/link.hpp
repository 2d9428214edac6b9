// What the link and the device's memory can do for a mix of bytes read and written: the ceiling of `ec_bench
// host`.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/common/random.hpp"
#include "bench/common/stats.hpp"
#include "bench/common/workers.hpp"
#include "bench/gpu/contestants.hpp"
#include "bench/gpu/gpu.hpp"
#include "bench/gpu/xor_args.hpp"
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

/// The fastest way to read k chunks and write `targets`, with nothing computed. For host memory: over the
/// link, by copies in both directions at once on two streams, or by a kernel that reads and writes pinned
/// memory and only XORs, where the driver has it; the links of several devices at once, by copies alone. For
/// device memory: a copy within that of the first device.
class Ceiling {
 public:
  /// Checks once that each way over the link writes to its end. links: at least one; they outlive the
  /// ceiling. Throws std::runtime_error.
  Ceiling(std::span<const std::unique_ptr<Link>> links, bool on_device, unsigned k, unsigned targets)
      : links_(links.first(on_device ? 1 : links.size())),
        program_(gf::Matrix(targets, k)),
        chunk_(links.front()->pinned.size() / (k + targets) / xor_tile * xor_tile) {
    const Memory& pinned = links_.front()->pinned;
    if (on_device) {
      // A copy reads and writes as much; a code reads k parts and writes `targets` of the same sum.
      const std::size_t bytes = pinned.size();
      ways_.push_back({"device copy", 2.0 * static_cast<double>(bytes) * k / (k + targets),
                       [bytes](Link& link, CUstream one, CUstream) {
                         const CUdeviceptr at = gpu_address(link.device_memory.data());
                         require(gpu_driver().memcpy_dtod_async(at + bytes, at, bytes, one),
                                 "cuMemcpyDtoDAsync");
                       }});
      time(ways_.back());
      return;
    }
    for (unsigned i = 0; i < k + targets; ++i) chunks_.push_back(pinned.data() + i * chunk_);
    const std::size_t in = k * chunk_;
    const std::size_t out = targets * chunk_;
    add_way_over_link("copies", [in, out](Link& link, CUstream one, CUstream other) {
      const auto& driver = link.timer.device()->driver();
      const CUdeviceptr device = gpu_address(link.device_memory.data());
      require(driver.memcpy_htod_async(device, link.pinned.data(), in, one), "cuMemcpyHtoDAsync");
      require(driver.memcpy_dtoh_async(link.pinned.data() + in, device + link.pinned.size(), out, other),
              "cuMemcpyDtoHAsync");
    });
    if (links_.size() == 1) add_kernels();
  }
  Ceiling(const Ceiling&) = delete;
  Ceiling& operator=(const Ceiling&) = delete;

  /// One sample of each way.
  void sample() {
    for (Way& way : ways_) way.seconds.push_back(time(way));
  }
  /// GB/s of k chunks by the best way; at least one sample must be there.
  double source_gbps() const {
    double best = 0;
    for (const Way& way : ways_)
      best =
          std::max(best, 1e-9 * static_cast<double>(links_.size()) * way.source_bytes / median(way.seconds));
    return best;
  }

 private:
  using Work = std::function<void(Link&, CUstream, CUstream)>;
  struct Way {
    std::string name;
    double source_bytes;  ///< of each link
    Work work;
    std::vector<double> seconds{};
  };

  /// Until the last link is done. Links start one after the other within microseconds, and each by its own
  /// clock.
  double time(const Way& way) const {
    for (const auto& link : links_)
      link->timer.start([&](CUstream one, CUstream other) { way.work(*link, one, other); });
    double longest = 0;
    for (const auto& link : links_) longest = std::max(longest, link->timer.finish());
    return longest;
  }

  void add_way_over_link(const std::string& name, Work work) {
    ways_.push_back({name, static_cast<double>(chunk_ * program_.sources()), std::move(work)});
    const std::vector<std::uint8_t> spoilt(xor_tile, 0x5a);
    for (const auto& link : links_) {
      std::uint8_t* end = link->pinned.data() + chunk_ * (program_.sources() + program_.targets());
      std::ranges::copy(spoilt, end - xor_tile);
      time(ways_.back());
      if (std::memcmp(end - xor_tile, spoilt.data(), xor_tile) == 0)
        throw std::runtime_error(fmt::format("{}, which measures the link, did not move its bytes", name));
    }
  }

  void add_kernels() {
    const DeviceStripe stripe(program_, chunks_, chunk_);
    for (const Kernel& kernel : xor_kernels(links_.front()->timer.device()))
      add_way_over_link(kernel.name,
                        [stripe, kernel](Link&, CUstream one, CUstream) { kernel.launch(stripe, one); });
  }

  std::span<const std::unique_ptr<Link>> links_;
  kernels::Program program_;  ///< for its shape only
  std::size_t chunk_ = 0;     ///< bytes of each chunk
  std::vector<std::uint8_t*> chunks_;
  std::vector<Way> ways_;
};

}  // namespace ec::bench
