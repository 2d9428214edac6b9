// Launches: of each kernel, and of the best kernel for a stripe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "gf/matrix.hpp"
#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/generate/generated_args.hpp"
#include "kernels/cuda/kernels/bit_args.hpp"
#include "kernels/cuda/kernels/kernel_args.hpp"

namespace ec::kernels::cuda {

/// automatic: the best kernel for the job. tile: word by word, takes every job. table: tables of
/// products, for any matrix. bits: tensor cores, for any matrix. paired: tensor cores, for paired matrices
/// (bits.cuh). generated: for one matrix, of a list. The last four code as much of a job as they can, and
/// tile codes the rest.
enum class KernelKind { automatic, tile, table, bits, paired, generated };

/// The name of the back end that uses this kernel.
constexpr std::string_view backend_name(KernelKind kind) {
  constexpr std::string_view names[] = {"cuda",      "cuda-tile",   "cuda-table",
                                        "cuda-bits", "cuda-paired", "cuda-generated"};
  return names[static_cast<int>(kind)];
}

/// The input of one launch, whichever kernel: the chunks as the device sees them.
struct ChunkViews {
  std::span<const std::uint8_t* const> sources;
  std::span<std::uint8_t* const> targets;
  std::size_t bytes = 0;  ///< from `first` on
  /// If some chunk lies in host memory, so that the link to the host bounds the launch: the jobs that share
  /// the link now, this one included. Otherwise 0.
  std::size_t link_jobs = 0;
  std::size_t first = 0;  ///< byte of every chunk
  // For Verb::compare, see KernelArgs; first_byte is the first byte of every chunk's view.
  unsigned long long* difference = nullptr;
  std::uint64_t first_byte = 0;

  /// The largest power of two, up to 4096, that divides every address.
  std::size_t alignment() const;
};

/// target = matrix . source, or target += matrix . source, or the two are compared, which tables and tiles
/// can: enqueued on `stream`, the device's context being current.
struct Work {
  const Device& device;
  const gf::Matrix& matrix;
  ChunkViews chunks;
  Verb verb;
  CUstream stream;
};

/// Takes chunks of any alignment and length that the device can address. The kernel of this kind codes as
/// much as it can, the tile kernels code the rest.
CUresult launch_stripe(const Work& work, KernelKind kind) noexcept;

// The kernels. Some take as many launches as the targets need; on a failure the earlier ones are under way.
// The reach of a kernel is how many bytes from the start of each chunk it can code, 0 if none. Its launches
// take chunks that are within reach as a whole.

/// Takes chunks of any alignment and length (tile_kernel.cu).
CUresult launch_tiles(const Work& work);

/// Whether the table kernels (table_kernel.cu) beat the tensor-core kernels at this matrix and these chunks,
/// by measurement.
bool table_kernel_pays(const Work& work);
/// 0 if the chunks are not aligned to 16 bytes or shorter than a tile.
std::size_t table_kernel_reach(const ChunkViews& chunks, Verb verb);
/// A launch for up to eight rows, as shared memory allows. Of up to four, a row of ones takes no table.
CUresult launch_tables(const Work& work);

/// The tensor-core kernel of the least work for a matrix, among the kernels with at least and at most so many
/// `pairs` (0 to 3); null if there is none, or the chip has no such instruction.
const BitKernel* bit_kernel_for(const Device& device, const gf::Matrix& matrix, unsigned least,
                                unsigned most);
/// A multiple of 16 bytes or more; 0 if the chunks are not aligned to 16 bytes.
std::size_t bit_kernel_reach(const BitKernel& kernel, const ChunkViews& chunks);
/// Kernels for paired matrices transform only.
CUresult launch_bits(const Work& work, const BitKernel& kernel);

/// A multiple of 16 bytes, or 0 if the chunks are shorter than a tile or not aligned to 16 bytes.
std::size_t generated_kernel_reach(const ChunkViews& chunks);
/// One stripe; or so many, of which `table` in device memory has the addresses, stripe after stripe of its
/// sources, then of its targets, aligned to 16 bytes. Then the work's chunks have no addresses, but bytes,
/// within reach for every chunk, and where they lie.
CUresult launch_generated(const Work& work, const GeneratedKernel& kernel, CUdeviceptr table = 0,
                          std::size_t stripes = 1);

// Shared by the launches.

/// The alignment that all kernels but the tile kernels need.
inline constexpr std::size_t load_alignment = 16;

/// Fills the parameter for these chunks without the coefficients; returns their place.
std::uint8_t* begin_args(KernelArgs& args, const ChunkViews& chunks, Verb verb);
/// The parameter for `count` of the targets from number `first` on, with every step-th row of the matrix.
KernelArgs args_for(const Work& work, unsigned first, unsigned count, unsigned step = 1);

/// Blocks of `threads` in a row, whose warps code tile_bytes of every chunk at a time.
struct Grid {
  unsigned threads, tile_bytes;
  std::size_t most_blocks;  ///< of a multiprocessor
  std::size_t shared_bytes = 0, stripes = 1;
};
/// A launch with the one parameter at `args`.
CUresult launch_warps(const Work& work, CUfunction function, const Grid& grid, void* args);

}  // namespace ec::kernels::cuda
