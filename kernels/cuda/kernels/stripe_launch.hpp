// One stripe by the best kernel there is for it.
#pragma once

#include <memory>

#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/generate/generated_program.hpp"
#include "kernels/cuda/kernels/chunk_views.hpp"
#include "kernels/cuda/kernels/kernel_kind.hpp"
#include "kernels/program.hpp"

namespace ec::kernels::cuda {

/// How the kernel of a stripe is chosen.
struct KernelChoice {
  KernelKind kind = KernelKind::automatic;
  /// What may be asked of the driver to get a generated kernel; KernelKind::generated makes `later` a
  /// `now`.
  GeneratedProgram::Wish generated = GeneratedProgram::Wish::later;
};

/// The kernel generated for this form of the program, if it is the choice and is there; source_bytes are to
/// be coded by it.
CUfunction generated_for(const std::shared_ptr<Device>& device, const Program& program, ProgramForm form,
                         std::uint64_t source_bytes, const KernelChoice& choice);

/// Enqueues target = M . source, or target += M . source, for chunks of any alignment and length that the
/// device can address; the device's context is current. The best kernel of `choice` codes what it can, the
/// tile kernels the rest. On a failure some launches may be under way.
CUresult launch_stripe(const std::shared_ptr<Device>& device, const Program& program,
                       const ChunkViews& chunks, Verb verb, const KernelChoice& choice, CUstream stream);

}  // namespace ec::kernels::cuda
