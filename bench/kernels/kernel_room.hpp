// The device memory that kernels are measured on, and the clock.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bench/kernels/kernel_contestant.hpp"
#include "tools/device/buffer.hpp"

namespace ec::bench {

struct KernelTiming {
  double seconds = 0;  ///< median of the runs
  double noise = 0;    ///< percent, as noise_percent()
};

/// Source chunks hold random bytes that nothing overwrites; target chunks are apart from them. The device's
/// context must be current. Everything throws std::runtime_error on a fault.
class KernelRoom {
 public:
  /// `sources`, `targets`: bytes of the largest case.
  KernelRoom(std::shared_ptr<kernels::cuda::Device> device, std::size_t sources, std::size_t targets);
  ~KernelRoom();
  KernelRoom(const KernelRoom&) = delete;
  KernelRoom& operator=(const KernelRoom&) = delete;

  /// Batches of `stripes` stripes each, apart in memory: as many as keep `cold_bytes` moving, so that one
  /// does not find its chunks in the cache of the device; at least one. Valid until the next call.
  std::span<const StripeBatch> lay_out(const kernels::Program& program, std::size_t chunk_bytes,
                                       std::size_t stripes, std::size_t cold_bytes);

  void poison(const StripeBatch& batch);
  /// Whether sampled ranges of sampled stripes are what the reference back end makes of the sources.
  bool verify(const StripeBatch& batch);
  /// Runs `work` twice unmeasured, then `runs` times between events.
  KernelTiming time(unsigned runs, const std::function<void(CUstream)>& work);
  /// Best rate of copies within the device, bytes read and written a second.
  double copy_rate(unsigned runs);

  void wait();

 private:
  const kernels::cuda::Driver& driver() const { return device_->driver(); }
  std::vector<std::uint8_t> download(const std::uint8_t* from, std::size_t bytes);
  bool verify_range(const StripeBatch& batch, std::size_t stripe, std::size_t from, std::size_t bytes);

  std::shared_ptr<kernels::cuda::Device> device_;
  kernels::cuda::Device::Lane lane_;
  kernels::cuda::Buffer sources_;
  kernels::cuda::Buffer targets_;
  kernels::cuda::Buffer table_;
  CUevent start_ = nullptr;
  CUevent stop_ = nullptr;
  std::vector<std::uint8_t*> chunks_;
  std::vector<StripeBatch> batches_;
};

}  // namespace ec::bench
