// What the link and the device's memory can do for a mix of bytes read and written: the ceiling of `ec_bench
// host`.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/kernels/kernel_contestant.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/region.hpp"
#include "tools/device/buffer.hpp"

namespace ec::bench {

/// The memory that transfers over the link of one device go between.
class LinkRoom {
 public:
  /// What is put on one or both of two streams.
  using Work = std::function<void(LinkRoom&, CUstream, CUstream)>;

  /// device_index: its place in Options::devices. bytes: read and written by one transfer, at least 1 MiB.
  /// Throws std::runtime_error.
  LinkRoom(std::shared_ptr<kernels::cuda::Device> device, std::size_t device_index, std::size_t bytes);
  ~LinkRoom();
  LinkRoom(const LinkRoom&) = delete;
  LinkRoom& operator=(const LinkRoom&) = delete;

  kernels::cuda::Device& device() const { return *device_; }
  const std::shared_ptr<kernels::cuda::Device>& shared_device() const { return device_; }
  const kernels::cuda::Driver& driver() const { return device_->driver(); }
  std::size_t bytes() const { return bytes_; }
  std::uint8_t* pinned() const { return pinned_.data(); }
  /// Twice bytes().
  CUdeviceptr on_device() const { return reinterpret_cast<CUdeviceptr>(device_memory_.data()); }

  /// Puts the work on the streams and does not wait for it.
  void start(const Work& work);
  /// Seconds between events from start() to the end of what it put on either stream.
  double finish();

 private:
  std::shared_ptr<kernels::cuda::Device> device_;
  std::size_t bytes_;
  kernels::cuda::Buffer pinned_;
  kernels::cuda::Buffer device_memory_;
  CUevent start_ = nullptr;
  CUevent stop_ = nullptr;
  CUevent other_stop_ = nullptr;
  /// For one sample at a time, for calls of many threads want the device's streams too.
  std::vector<kernels::cuda::Device::Lane> lanes_;
};

/// One for each device that work goes to.
using LinkRooms = std::vector<std::unique_ptr<LinkRoom>>;
/// devices: all of Options::devices, in order. Throws std::runtime_error.
LinkRooms make_link_rooms(std::span<const std::shared_ptr<kernels::cuda::Device>> devices, std::size_t bytes);

/// The fastest way to read k chunks and write `targets`, with nothing computed. For host memory: over the
/// link, by copies in both directions at once on two streams, or by a kernel that reads and writes pinned
/// memory and only XORs; the links of several devices at once, by copies alone. For device memory: a copy
/// within that of the first device.
class Ceiling {
 public:
  /// Checks once that each way moves its bytes. rooms: at least one; they outlive the ceiling. Throws
  /// std::runtime_error.
  Ceiling(const LinkRooms& rooms, bool on_device, unsigned k, unsigned targets);
  Ceiling(const Ceiling&) = delete;
  Ceiling& operator=(const Ceiling&) = delete;

  /// One sample of each way.
  void sample();
  /// The best way's median in GB/s of k chunks; at least one sample must be there.
  double source_gbps() const;
  /// Of each way, by its name.
  std::vector<std::pair<std::string, double>> ways() const;

  bool on_device() const { return on_device_; }
  unsigned k() const { return k_; }
  unsigned targets() const { return targets_; }

 private:
  struct Way {
    std::string name;
    double source_bytes;  ///< of each room
    LinkRoom::Work work;
    std::vector<double> seconds;
  };
  /// Until the last room is done.
  double time(const Way& way) const;
  void add_copies();
  void add_kernels();
  void add_device_copy();
  void check_copies(LinkRoom& room, std::size_t in, std::size_t out);
  void check_kernel(const std::string& name, std::size_t chunk);

  std::span<const std::unique_ptr<LinkRoom>> rooms_;
  bool on_device_;
  unsigned k_;
  unsigned targets_;
  std::unique_ptr<kernels::Program> program_;  ///< for its shape only
  std::vector<std::uint8_t*> chunks_;
  KernelContestants kernels_;
  std::vector<Way> ways_;
};

}  // namespace ec::bench
