// Kernels compiled for one matrix: asked for once a program has coded enough, made in the background.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/generate/program_compiler.hpp"
#include "kernels/cuda/kernels/chunk_views.hpp"
#include "kernels/program.hpp"

namespace ec::kernels::cuda {

/// What a kernels::Program keeps for the device. Thread safe.
class GeneratedProgram final : public Expansion {
 public:
  /// The one of `program`; null when memory is out, and for a program that may not be compiled.
  static const GeneratedProgram* of(const Program& program);

  explicit GeneratedProgram(const gf::Matrix& matrix) : matrix_(matrix) {}

  /// now: asks whatever was counted, and waits; for tests and measurements. later: asks when enough was
  /// coded. never: asks for nothing (a stream is captured).
  enum class Wish { now, later, never };

  /// The kernel for this device, or null while there is none. Counts `source_bytes`; when a program has coded
  /// Options::generate_after_bytes, it is asked for. Calls no driver.
  CUfunction function(const std::shared_ptr<Device>& device, ProgramForm form, std::uint64_t source_bytes,
                      Wish wish) const;

  /// Why there is no kernel; empty if there is one or none was asked for.
  std::string failure(ProgramForm form) const;

 private:
  const GeneratedKernel* kernel_locked(const std::shared_ptr<Device>& device, ProgramForm form,
                                       Wish wish) const;

  const gf::Matrix matrix_;
  mutable std::mutex mutex_;
  /// For devices that are there, and for some that were: those that came up after a fault count as others.
  mutable std::vector<std::shared_ptr<const GeneratedKernel>> kernels_;
  mutable std::uint64_t coded_bytes_ = 0;
};

/// Bytes from the start of each chunk that a generated kernel codes: all, or 0 if they are fewer than a tile
/// or not aligned to 16 bytes.
std::size_t generated_kernel_reach(const ChunkViews& chunks);

CUresult launch_generated(const Device& device, CUfunction function, const ChunkViews& chunks,
                          CUstream stream);

/// Many stripes: `table` is in device memory, stripe after stripe the addresses of its sources, then of its
/// targets, aligned to 16 bytes. each: bytes of every chunk, at least warp_tile, and where they lie; no
/// addresses.
CUresult launch_generated_batch(const Device& device, CUfunction function, CUdeviceptr table,
                                const ChunkViews& each, std::size_t stripes, CUstream stream);

}  // namespace ec::kernels::cuda
