// What `ec_bench gpu` measures: kernels that code a stripe which lies in device memory.
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/common/stripes.hpp"
#include "bench/gpu/gpu.hpp"
#include "kernels/cuda/kernels/launches.hpp"

namespace ec::bench {

/// A stripe as kernels take it. A view; chunks lie at 64 bytes at least.
struct DeviceStripe {
  DeviceStripe(const Stripes& stripes, std::size_t stripe);

  kernels::cuda::ChunkViews views() const {
    return {{chunks.data(), program->sources()},
            {chunks.data() + program->sources(), program->targets()},
            chunk_bytes};
  }

  const kernels::Program* program;
  std::vector<std::uint8_t*> chunks;  ///< the sources, then the targets
  std::size_t chunk_bytes;
};

/// Used by one thread at a time, with the device's context current. The functions throw std::runtime_error.
struct Kernel {
  std::string name;
  /// Whether launch() codes this stripe in one go. What is not supported gets no row.
  std::function<bool(const DeviceStripe&)> supports;
  /// Enqueues target = M . source and returns without waiting.
  std::function<void(const DeviceStripe&, CUstream)> launch;
};

/// The XOR kernel: reads every source, writes the sum into every target, in the access pattern of the best
/// kernels; what the ratio to XOR refers to. The variants differ in their grid; the fastest one counts. None
/// where the driver has no such kernel.
std::vector<Kernel> xor_kernels(const std::shared_ptr<Device>& device);

/// The kernels for any matrix, by tables of products (table) and on the tensor cores (bits); those for paired
/// matrices, where they would be taken before those (paired); the one generated for the matrix, where there
/// is one (generated).
std::vector<Kernel> product_kernels(const std::shared_ptr<Device>& device);

}  // namespace ec::bench
