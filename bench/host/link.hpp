// What the links can do for a mix of bytes read and written: the ceiling of `ec_bench host`.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "bench/common/stripes.hpp"
#include "bench/common/workers.hpp"
#include "bench/gpu/gpu.hpp"

namespace ec::bench {

/// The links of some devices, and the memory that transfers go between.
class Links {
 public:
  /// devices: all of Options::devices, in order. bytes: read and written by one transfer over each link, at
  /// least 1 MiB. Throws std::runtime_error.
  Links(std::span<const std::shared_ptr<Device>> devices, std::size_t bytes)
      : bytes_(bytes), workers_(static_cast<unsigned>(devices.size())) {
    for (std::size_t i = 0; i < devices.size(); ++i) links_.emplace_back(devices[i], i, bytes);
  }

  /// Source GB/s of k chunks that are read, where `targets` are written and nothing is computed: by copies in
  /// both directions, over the links of all devices at once. A kernel that only XORs in pinned memory is
  /// never faster. Throws std::runtime_error, also if the copies do not write to their end.
  double source_gbps(unsigned k, unsigned targets) {
    const std::size_t chunk = bytes_ / (k + targets);
    const std::size_t in = k * chunk, out = targets * chunk;
    const std::vector<std::uint8_t> spoilt(1024, 0x5a);
    const auto end_of = [&](const Link& link) { return link.pinned.data() + in + out - spoilt.size(); };
    for (const Link& link : links_) std::memcpy(end_of(link), spoilt.data(), spoilt.size());
    std::vector<double> seconds(links_.size());
    workers_.run(static_cast<unsigned>(links_.size()), [&](unsigned i) {
      const Link& link = links_[i];
      const Device::Scope scope(*link.there.device);
      const auto& driver = link.there.device->driver();
      const CUdeviceptr at = gpu_address(link.device_memory.data());
      const auto begun = std::chrono::steady_clock::now();
      require(driver.memcpy_htod_async(at, link.pinned.data(), in, link.there.get()), "cuMemcpyHtoDAsync");
      require(driver.memcpy_dtoh_async(link.pinned.data() + in, at + in, out, link.back.get()),
              "cuMemcpyDtoHAsync");
      for (const Stream* stream : {&link.there, &link.back}) stream->wait();
      seconds[i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    });
    for (const Link& link : links_)
      if (std::memcmp(end_of(link), spoilt.data(), spoilt.size()) == 0)
        throw std::runtime_error("copies, which measure the link, did not move their bytes");
    return 1e-9 * static_cast<double>(links_.size() * in) / std::ranges::max(seconds);
  }

 private:
  struct Link {
    Link(const std::shared_ptr<Device>& device, std::size_t index, std::size_t bytes)
        : there(device),
          back(device),
          pinned(allocate(kernels::Residence::pinned, bytes, index)),
          device_memory(allocate(kernels::Residence::device, bytes, index)) {}

    Stream there, back;
    Buffer pinned, device_memory;
  };

  std::size_t bytes_;
  std::deque<Link> links_;
  Workers workers_;
};

}  // namespace ec::bench
