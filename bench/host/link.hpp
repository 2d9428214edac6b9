// What the link and the device's memory can do for a mix of bytes read and written: the ceiling of `ec_bench
// host`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/common/gpu.hpp"
#include "bench/common/memory.hpp"
#include "bench/kernels/contestants.hpp"

namespace ec::bench {

/// The memory that transfers over the link of one device go between, and the clock on them.
struct LinkBuffers {
  /// device_index: its place in Options::devices. bytes: read and written by one transfer, at least 1 MiB.
  /// Throws std::runtime_error.
  LinkBuffers(const std::shared_ptr<Device>& device, std::size_t device_index, std::size_t bytes);

  GpuTimer timer;
  Memory pinned;
  Memory device_memory;  ///< twice as many bytes
};

/// One for each device that work goes to.
using Links = std::vector<std::unique_ptr<LinkBuffers>>;
/// devices: all of Options::devices, in order. Throws std::runtime_error.
Links make_links(std::span<const std::shared_ptr<Device>> devices, std::size_t bytes);

/// The fastest way to read k chunks and write `targets`, with nothing computed. For host memory: over the
/// link, by copies in both directions at once on two streams, or by a kernel that reads and writes pinned
/// memory and only XORs, where the driver has it; the links of several devices at once, by copies alone. For
/// device memory: a copy within that of the first device.
class Ceiling {
 public:
  /// Checks once that each way moves its bytes. links: at least one; they outlive the ceiling. Throws
  /// std::runtime_error.
  Ceiling(const Links& links, bool on_device, unsigned k, unsigned targets);
  Ceiling(const Ceiling&) = delete;
  Ceiling& operator=(const Ceiling&) = delete;

  /// One sample of each way.
  void sample();
  /// The best way's median in GB/s of k chunks; at least one sample must be there.
  double source_gbps() const;
  /// Of each way, by its name.
  std::vector<std::pair<std::string, double>> ways() const;

 private:
  struct Way {
    std::string name;
    double source_bytes;  ///< of each link
    std::function<void(LinkBuffers&, CUstream, CUstream)> work;
    std::vector<double> seconds{};
  };
  /// Until the last link is done.
  double time(const Way& way) const;
  void add_copies();
  void add_kernels();
  void add_device_copy();
  void check_copies(LinkBuffers& link, std::size_t in, std::size_t out) const;
  void check_kernel(const Way& way, std::size_t chunk) const;

  std::span<const std::unique_ptr<LinkBuffers>> links_;
  unsigned k_;
  unsigned targets_;
  std::unique_ptr<kernels::Program> program_;  ///< for its shape only
  std::vector<std::uint8_t*> chunks_;
  std::vector<Way> ways_;
};

}  // namespace ec::bench
