// Kernels compiled for one matrix: asked for once a program has coded enough, compiled and loaded by a thread
// of its own, so that no job waits for a compiler, or for a driver that waits for the device.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/generate/emit.hpp"
#include "kernels/program.hpp"

namespace ec::kernels::cuda {

struct GeneratedKernel;

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
  /// Options::generate_after_bytes, it is asked for. Equal programs share a kernel; one that nobody holds any
  /// more is kept for the next who asks, but not many. Calls no driver.
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

}  // namespace ec::kernels::cuda
