// What the link and the device's memory can do for a mix of bytes read and written: the ceiling of `ec_bench
// host`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/common/gpu.hpp"
#include "bench/common/memory.hpp"
#include "bench/kernels/contestants.hpp"

namespace ec::bench {

/// The memory that transfers over the link of one device go between, and the clock on them.
struct Link {
  /// device_index: its place in Options::devices. bytes: read and written by one transfer, at least 1 MiB.
  /// Throws std::runtime_error.
  Link(const std::shared_ptr<Device>& device, std::size_t device_index, std::size_t bytes);

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
  Ceiling(std::span<const std::unique_ptr<Link>> links, bool on_device, unsigned k, unsigned targets);
  Ceiling(const Ceiling&) = delete;
  Ceiling& operator=(const Ceiling&) = delete;

  /// One sample of each way.
  void sample();
  /// Each way's median in GB/s of k chunks, by its name; at least one sample must be there.
  nlohmann::json ways() const;
  /// Of the best one.
  double source_gbps() const;

 private:
  using Work = std::function<void(Link&, CUstream, CUstream)>;
  struct Way {
    std::string name;
    double source_bytes;  ///< of each link
    Work work;
    std::vector<double> seconds{};
  };
  /// Until the last link is done.
  double time(const Way& way) const;
  void add_way_over_link(const std::string& name, Work work);
  void add_kernels();

  std::span<const std::unique_ptr<Link>> links_;
  kernels::Program program_;  ///< for its shape only
  std::size_t chunk_ = 0;     ///< bytes of each chunk
  std::vector<std::uint8_t*> chunks_;
  std::vector<Way> ways_;
};

}  // namespace ec::bench
