#include "kernels/cuda/stripe_launch.hpp"

#include <new>
#include <vector>

#include "kernels/cuda/bit_launch.hpp"
#include "kernels/cuda/table_launch.hpp"
#include "kernels/cuda/tile_launch.hpp"

namespace ec::kernels::cuda {
namespace {

/// The kernel generated for this matrix, if it is there and takes these chunks.
CUfunction generated_for(const std::shared_ptr<Device>& device, const Program& program,
                         const ChunkViews& chunks, Verb verb, const KernelChoice& choice) {
  const bool forced = choice.kind == KernelKind::generated;
  if (!forced && choice.kind != KernelKind::automatic) return nullptr;
  if (!forced && !worth_generating(program.matrix())) return nullptr;
  if (generated_kernel_reach(chunks) == 0) return nullptr;
  const GeneratedProgram* generated = GeneratedProgram::of(program);
  if (generated == nullptr) return nullptr;
  return generated->function(
      device, verb == Verb::accumulate ? ProgramForm::accumulate : ProgramForm::transform,
      chunks.bytes * chunks.sources.size(),
      forced && choice.generated != GeneratedProgram::Wish::never ? GeneratedProgram::Wish::now
                                                                  : choice.generated);
}

/// Launches the fastest kernel that takes at least the start of these chunks, and says how much of them it
/// codes. Over the link arithmetic costs nothing, and the kernel wins that is short and asks for few bytes at
/// a time: tensor cores, which know no matrix before they run (H200, one call, us, against generated ones:
/// 8+3, 4 KiB 13.6 to 16.9, 1 MiB 184 to 193; 32+8, 64 KiB 75 to 81, 4 MiB 2721 to 3878; 4+2 the same).
CUresult launch_best(const std::shared_ptr<Device>& device, const Program& program, const ChunkViews& chunks,
                     Verb verb, const KernelChoice& choice, CUstream stream, std::size_t* done) {
  const bool accumulate = verb == Verb::accumulate;
  const bool automatic = choice.kind == KernelKind::automatic;
  const gf::Matrix& matrix = program.matrix();
  if (automatic && chunks.link_jobs != 0 && bit_kernel_reach(*device, chunks) == chunks.bytes) {
    *done = chunks.bytes;
    return launch_bits(*device, matrix, chunks, accumulate, stream);
  }
  if (const CUfunction function = generated_for(device, program, chunks, verb, choice)) {
    *done = generated_kernel_reach(chunks);
    return launch_generated(*device, function, chunks, stream);
  }
  if (choice.kind == KernelKind::table || (automatic && table_kernel_pays(matrix))) {
    *done = table_kernel_reach(chunks, accumulate);
    if (*done != 0)
      return launch_tables(*device, matrix, {chunks.sources, chunks.targets, *done, chunks.link_jobs},
                           accumulate, stream);
  }
  if (choice.kind == KernelKind::bits || automatic) {
    *done = bit_kernel_reach(*device, chunks);
    if (*done != 0)
      return launch_bits(*device, matrix, {chunks.sources, chunks.targets, *done, chunks.link_jobs},
                         accumulate, stream);
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult launch_stripe(const std::shared_ptr<Device>& device, const Program& program,
                       const ChunkViews& chunks, Verb verb, const KernelChoice& choice, CUstream stream) try {
  std::size_t done = 0;
  if (const auto r = launch_best(device, program, chunks, verb, choice, stream, &done); r != CUDA_SUCCESS)
    return r;
  if (done == chunks.bytes) return CUDA_SUCCESS;
  std::vector<const std::uint8_t*> sources(chunks.sources.begin(), chunks.sources.end());
  std::vector<std::uint8_t*> targets(chunks.targets.begin(), chunks.targets.end());
  for (auto& s : sources) s += done;
  for (auto& t : targets) t += done;
  return launch_tiles(*device, program.matrix(), {sources, targets, chunks.bytes - done, chunks.link_jobs},
                      verb == Verb::accumulate, stream);
} catch (const std::bad_alloc&) {
  // An error like the driver's, which has whoever called wait for what was launched before.
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace ec::kernels::cuda
