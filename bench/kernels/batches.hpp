// The stripes in device memory that kernels are measured on.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bench/common/memory.hpp"
#include "bench/kernels/contestants.hpp"

namespace ec::bench {

struct KernelTiming {
  double seconds = 0;  ///< median of the runs
  double noise = 0;    ///< percent, as noise_percent()
};

/// Source chunks hold random bytes that nothing overwrites; target chunks are apart from them. The device's
/// context must be current. Everything throws std::runtime_error on a fault.
class DeviceBatches {
 public:
  /// `sources`, `targets`: bytes of the largest case.
  DeviceBatches(const std::shared_ptr<Device>& device, std::size_t sources, std::size_t targets);

  /// Batches of `stripes` stripes each, apart in memory: as many as keep `cold_bytes` moving, so that one
  /// does not find its chunks in the cache of the device; at least one. Valid until the next call.
  std::span<const StripeBatch> lay_out(const kernels::Program& program, std::size_t chunk_bytes,
                                       std::size_t stripes, std::size_t cold_bytes);

  /// Overwrites the targets, so that bytes that are not written show.
  void spoil(const StripeBatch& batch);
  /// Whether sampled ranges of sampled stripes are what the reference back end makes of the sources.
  bool right(const StripeBatch& batch) const;
  /// Runs `work` twice unmeasured, then `runs` times on the device's clock.
  KernelTiming time(unsigned runs, const std::function<void(CUstream)>& work);
  /// Best rate of copies within the device, bytes read and written a second.
  double copy_rate(unsigned runs);

 private:
  std::vector<std::uint8_t> read(const std::uint8_t* from, std::size_t bytes) const;
  bool is_right(const StripeBatch& batch, std::size_t stripe, std::size_t from, std::size_t bytes) const;

  GpuTimer timer_;
  Memory sources_;
  Memory targets_;
  std::unique_ptr<Memory> table_;
  std::vector<std::uint8_t*> chunks_;
  std::vector<StripeBatch> batches_;
};

}  // namespace ec::bench
