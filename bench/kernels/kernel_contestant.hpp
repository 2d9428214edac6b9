// What `ec_bench kernels` measures: a kernel that codes stripes which lie in device memory.
// To add one: derive from KernelContestant, return it from a function like ladder_contestants(), and add that
// function to kernel_contestants().
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/device/device.hpp"
#include "kernels/program.hpp"

namespace ec::bench {

/// The stripes that one launch codes, all by the same matrix. Views only; every chunk is 256-byte aligned
/// device memory of `chunk_bytes`, a multiple of 1024.
struct StripeBatch {
  const kernels::Program* program = nullptr;
  std::size_t chunk_bytes = 0;
  std::size_t stripes = 0;
  /// Addresses, stripe by stripe: the sources, then the targets. stripes * (sources + targets) of them.
  std::span<std::uint8_t* const> chunks;
  /// The same table in device memory.
  CUdeviceptr device_chunks = 0;

  unsigned sources() const { return program->sources(); }
  unsigned targets() const { return program->targets(); }
  unsigned width() const { return sources() + targets(); }
};

/// Used by one thread, with the device's context current.
class KernelContestant {
 public:
  virtual ~KernelContestant() = default;

  virtual std::string name() const = 0;
  /// Whether launch() can code this batch in one go. What is not supported gets no row.
  virtual bool supports(const StripeBatch& batch) const = 0;
  /// What is done once for a matrix (compile, upload tables); not timed. Batches of the same matrix and shape
  /// follow. Throws std::runtime_error.
  virtual void prepare(const StripeBatch& batch) = 0;
  /// Enqueues target = M . source for every stripe and returns without waiting. Throws std::runtime_error.
  virtual void launch(const StripeBatch& batch, CUstream stream) = 0;
};

using KernelContestants = std::vector<std::unique_ptr<KernelContestant>>;

/// One for each rung of the ladder, one stripe a launch.
KernelContestants ladder_contestants(const std::shared_ptr<kernels::cuda::Device>& device);

/// The kernels for any matrix, by tables of products (table) and on the tensor cores (bits), and the one
/// generated for the matrix (generated; many stripes a launch too).
KernelContestants program_contestants(const std::shared_ptr<kernels::cuda::Device>& device);

/// The XOR kernel: reads every source, writes the sum into every target, in the access pattern of the best
/// kernels; what the ratio to XOR refers to. The variants differ in their grid; the fastest one counts.
KernelContestants xor_contestants(const std::shared_ptr<kernels::cuda::Device>& device);

/// Everything that is measured, in the order of the report.
KernelContestants kernel_contestants(const std::shared_ptr<kernels::cuda::Device>& device);

/// Throws std::runtime_error that names the call and the driver's answer, unless `result` is CUDA_SUCCESS.
void require(const kernels::cuda::Driver& driver, CUresult result, const char* call);

}  // namespace ec::bench
