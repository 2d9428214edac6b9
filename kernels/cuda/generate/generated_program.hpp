// Kernels compiled for one matrix: asked for once a program has coded enough, compiled in the background,
// loaded when there.
#pragma once

#include <array>
#include <atomic>
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

/// Whether a matrix of this shape is faster as generated code than on the tensor cores. Measured on an H200
/// (driver 580.159.04): generated reaches 0.99 to 1.05 of a device copy up to 32+8, where its code still fits
/// the instruction cache; at 64+16 it falls to 0.30, the tensor cores give 0.77.
bool worth_generating(const gf::Matrix& matrix);

/// What a kernels::Program keeps for the device. Thread safe.
class GeneratedProgram final : public Expansion {
 public:
  /// The one of `program`; null when memory is out, and for a program that may not be compiled.
  static const GeneratedProgram* of(const Program& program);

  explicit GeneratedProgram(const gf::Matrix& matrix) : matrix_(matrix) {}
  ~GeneratedProgram() override;

  /// now: compiles in the calling thread, whatever was counted. later: asks for the compilation when enough
  /// was coded. never: neither compiles nor loads, since the driver must not be asked to (a stream is
  /// captured).
  enum class Wish { now, later, never };

  /// The kernel for this device, or null while there is none. Counts `source_bytes`; when a program has coded
  /// Options::generate_after_bytes, its compilation is asked for.
  CUfunction function(const std::shared_ptr<Device>& device, ProgramForm form, std::uint64_t source_bytes,
                      Wish wish) const;

  /// Why there is no kernel; empty if there is one or none was asked for.
  std::string failure(ProgramForm form) const;

 private:
  /// What is there for one device, or for one that was: those that came up after a fault count as others.
  struct Loaded {
    std::weak_ptr<Device> device;
    unsigned chip = 0;
    std::shared_ptr<Compilation> compilation;
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    bool given_up = false;  // the driver would not load it
  };
  using Form = std::vector<Loaded>;

  static Loaded& loaded_on(Form& form, const std::shared_ptr<Device>& device);

  const gf::Matrix matrix_;
  mutable std::mutex mutex_;
  mutable std::array<Form, program_forms> forms_;
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
CUresult launch_generated_batch(const Device& device, CUfunction function, const gf::Matrix& matrix,
                                CUdeviceptr table, const ChunkViews& each, std::size_t stripes,
                                CUstream stream);

}  // namespace ec::kernels::cuda
