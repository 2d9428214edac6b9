// Chooses among the kernels, and has the tile kernels code what another leaves.
#include "kernels/cuda/kernels/stripe_launch.hpp"

#include <new>
#include <vector>

#include "kernels/cuda/kernels/bit_launch.hpp"
#include "kernels/cuda/kernels/table_launch.hpp"
#include "kernels/cuda/kernels/tile_launch.hpp"

namespace ec::kernels::cuda {
namespace {

/// Whether the tensor cores take these chunks over the link to the host. Arithmetic costs nothing there, and
/// the kernel wins that is short and asks for few bytes at a time (H200, one call, us, generated kernels
/// against this: 8+3, 4 KiB 17.1 to 14.5, 1 MiB 194 to 192; 32+8, 4 KiB 31.6 to 20.3, 256 KiB 223 to 196).
/// Long jobs in company are better off generated: eight threads, 8+3, 1 MiB, 49 GB/s against 47.
bool tensor_cores_win_over_link(const Device& device, const ChunkViews& chunks) {
  constexpr std::size_t long_bytes = std::size_t{4} << 20;
  const bool alone = chunks.link_jobs == 1;
  return chunks.link_jobs != 0 && (alone || chunks.bytes * chunks.sources.size() < long_bytes) &&
         bit_kernel_reach(device, chunks) == chunks.bytes;
}

/// Launches the fastest kernel that takes at least the start of these chunks, and says how much of them it
/// codes.
CUresult launch_best(const std::shared_ptr<Device>& device, const Program& program, const ChunkViews& chunks,
                     Verb verb, const KernelChoice& choice, CUstream stream, std::size_t* done) {
  const bool automatic = choice.kind == KernelKind::automatic;
  const gf::Matrix& matrix = program.matrix();
  const bool tensor_cores = automatic && tensor_cores_win_over_link(*device, chunks);
  *done = 0;
  if (!tensor_cores && generated_kernel_reach(chunks) != 0) {
    const auto form = verb == Verb::accumulate ? ProgramForm::accumulate : ProgramForm::transform;
    const CUfunction function =
        generated_for(device, program, form, chunks.bytes * chunks.sources.size(), choice);
    if (function != nullptr) {
      *done = generated_kernel_reach(chunks);
      return launch_generated(*device, function, chunks, stream);
    }
  }
  if (choice.kind == KernelKind::table || (automatic && !tensor_cores && table_kernel_pays(matrix))) {
    *done = table_kernel_reach(chunks, verb);
    if (*done != 0)
      return launch_tables(*device, matrix, {chunks.sources, chunks.targets, *done, chunks.link_jobs}, verb,
                           stream);
  }
  if (choice.kind == KernelKind::bits || automatic) {
    *done = bit_kernel_reach(*device, chunks);
    if (*done != 0)
      return launch_bits(*device, matrix, {chunks.sources, chunks.targets, *done, chunks.link_jobs}, verb,
                         stream);
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUfunction generated_for(const std::shared_ptr<Device>& device, const Program& program, ProgramForm form,
                         std::uint64_t source_bytes, const KernelChoice& choice) {
  const bool forced = choice.kind == KernelKind::generated;
  if (!forced && (choice.kind != KernelKind::automatic || !worth_generating(program.matrix())))
    return nullptr;
  const GeneratedProgram* generated = GeneratedProgram::of(program);
  if (generated == nullptr) return nullptr;
  using Wish = GeneratedProgram::Wish;
  const bool now = forced && choice.generated != Wish::never;
  return generated->function(device, form, source_bytes, now ? Wish::now : choice.generated);
}

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
                      verb, stream);
} catch (const std::bad_alloc&) {
  // An error like the driver's, which has whoever called wait for what was launched before.
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace ec::kernels::cuda
