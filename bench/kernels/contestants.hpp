// What `ec_bench kernels` measures: kernels that code stripes which lie in device memory.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/common/gpu.hpp"
#include "kernels/cuda/kernels/launches.hpp"
#include "kernels/program.hpp"

namespace ec::bench {

/// The stripes that one launch codes, all by the same matrix. Views only; every chunk is 256-byte aligned
/// memory that the device reaches, of `chunk_bytes`, a multiple of 1024.
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
  /// Where there is one.
  kernels::cuda::ChunkViews only_stripe() const {
    return {{chunks.data(), sources()}, chunks.subspan(sources(), targets()), chunk_bytes};
  }
};

/// Used by one thread, with the device's context current. The functions throw std::runtime_error.
struct KernelContestant {
  std::string name;
  /// Whether launch() can code this batch in one go. What is not supported gets no row.
  std::function<bool(const StripeBatch&)> supports;
  /// Enqueues target = M . source for every stripe and returns without waiting. What is done once for a
  /// matrix is done at its first launch, which is not timed.
  std::function<void(const StripeBatch&, CUstream)> launch;
};

/// The XOR kernel: reads every source, writes the sum into every target, in the access pattern of the best
/// kernels; what the ratio to XOR refers to. The variants differ in their grid; the fastest one counts. None
/// where the driver has no such kernel.
std::vector<KernelContestant> xor_contestants(const std::shared_ptr<GpuKernels>& kernels);

/// A rung of the ladder each, from the textbook kernel up. Names of rungs that the driver has no kernel for
/// go to *left_out.
std::vector<KernelContestant> ladder_contestants(const std::shared_ptr<GpuKernels>& kernels,
                                                 std::vector<std::string>* left_out);

/// The kernels for any matrix, by tables of products (table) and on the tensor cores (bits); those for paired
/// matrices, where they would be taken before those (paired); the one
/// generated for the matrix (generated; many stripes a launch too).
std::vector<KernelContestant> product_contestants(const std::shared_ptr<Device>& device);

}  // namespace ec::bench
