// Launches: of each kernel, and of the best kernel for a stripe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "gf/matrix.hpp"
#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/generate/generated_args.hpp"
#include "kernels/cuda/kernels/bit_args.hpp"
#include "kernels/cuda/kernels/kernel_args.hpp"
#include "kernels/program.hpp"

namespace ec::kernels::cuda {

/// automatic: the best kernel for the job. tile: generalised tiles, takes every job. table: tables of
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

  /// The same chunks, with some of the targets.
  ChunkViews with_targets(std::size_t from, std::size_t count) const {
    ChunkViews views = *this;
    views.targets = targets.subspan(from, count);
    return views;
  }
  /// The largest power of two, up to 4096, that divides every address.
  std::size_t alignment() const;
};

// Launches are enqueued on `stream`, the device's context being current, and code target = M . source, or
// target += M . source, or compare the two, which tables and tiles can. Some kernels take as many launches as
// the targets need; on a failure the earlier ones are under way. The reach of a kernel is how many bytes from
// the start of each chunk it can code; 0 if none.

/// Takes chunks of any alignment and length that the device can address. The kernel of this kind codes as
/// much as it can, the tile kernels code the rest.
CUresult launch_stripe(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks, Verb verb,
                       KernelKind kind, CUstream stream) noexcept;

/// Takes chunks of any alignment and length (tile_kernel.cu).
CUresult launch_tiles(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks, Verb verb,
                      CUstream stream);

/// Whether the table kernels (table_kernel.cu) beat the tensor-core kernels at this matrix, by measurement.
bool table_kernel_pays(const gf::Matrix& matrix);
/// 0 if the chunks are not aligned to 16 bytes or shorter than a tile, or the sources are too many.
std::size_t table_kernel_reach(const ChunkViews& chunks, Verb verb);
/// All bytes are within reach. A launch for each four rows; the first launch takes a row of ones too.
CUresult launch_tables(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks, Verb verb,
                       CUstream stream);

/// The reach of the tensor-core kernels (bit_kernel.cu): a multiple of 16 bytes or more; 0 if the chunks are
/// not aligned to 16 bytes, the chip has no such instruction, or the sources are too many.
std::size_t bit_kernel_reach(const Device& device, const ChunkViews& chunks);
/// The bytes within reach.
CUresult launch_bits(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks, Verb verb,
                     CUstream stream);

/// The work of the tensor-core kernels for this matrix, to be compared with the work of the paired ones.
unsigned bit_kernel_steps(const gf::Matrix& matrix);

/// The kernel of the least work for this matrix, if the matrix is paired (paired_kernel.cu) and the work is
/// less than `below`; null if there is none.
const PairedShape* paired_shape_for(const Device& device, const gf::Matrix& matrix, unsigned below);
/// A multiple of 16 bytes or more; 0 if the chunks are not aligned to 16 bytes.
std::size_t paired_kernel_reach(const PairedShape& shape, const ChunkViews& chunks);
/// Transforms the bytes within reach, in one launch.
CUresult launch_paired(const Device& device, const PairedShape& shape, const gf::Matrix& matrix,
                       const ChunkViews& chunks, CUstream stream);

/// A multiple of 16 bytes, or 0 if the chunks are shorter than a tile or not aligned to 16 bytes.
std::size_t generated_kernel_reach(const ChunkViews& chunks);
/// function: GeneratedKernel::one. All bytes are within reach.
CUresult launch_generated(const Device& device, CUfunction function, const ChunkViews& chunks,
                          CUstream stream);
/// function: GeneratedKernel::many. `table` is in device memory, stripe after stripe the addresses of its
/// sources, then of its targets, aligned to 16 bytes. each: bytes of every chunk, a multiple of 16 and at
/// least generated_tile, and where they lie; no addresses.
CUresult launch_generated_batch(const Device& device, CUfunction function, CUdeviceptr table,
                                const ChunkViews& each, std::size_t stripes, CUstream stream);

/// See tile_kernel.cu: tileWidthCol = columns, tileWidthRow = rows_per_thread * row_groups, tileDepth =
/// depth.
struct TileShape {
  unsigned word_bytes = 4;  ///< 1, 2, 4, 8 or 16
  unsigned columns = 128;   ///< blockDim.x
  unsigned row_groups = 1;  ///< blockDim.y
  unsigned depth = 1;       ///< sources staged at a time
  unsigned grid_x = 1;
  unsigned grid_y = 1;

  /// Words of less than four bytes are held in four (see Pack in pack.cuh).
  std::size_t shared_bytes() const {
    return std::size_t{depth} * columns * (word_bytes < 4 ? 4 : word_bytes);
  }
};
/// How the tile kernels cut a job. alignment: as ChunkViews::alignment(). bytes > 0.
TileShape choose_tile(std::size_t bytes, unsigned sources, unsigned targets, std::size_t alignment,
                      int multiprocessors);

// Shared by the launches.

/// The alignment that all kernels but the tile kernels need.
inline constexpr std::size_t load_alignment = 16;

/// The blocks to launch where the kernel itself would like `blocks` of `threads` threads, whose warps code
/// tile_bytes of every chunk at a time. Fewer over the link: just enough warps to keep it busy, so that the
/// first warps write while others read, and all jobs on the link have their share. (H200, 8+3, chunks of 1
/// MiB: 46 GB/s with 64 to 256 warps, 38 with a warp for each tile, where all read before any writes. Eight
/// threads, chunks of 64 KiB: 44 GB/s with an eighth of the warps each, 38 with all warps.)
unsigned blocks_for(const ChunkViews& chunks, std::size_t blocks, unsigned threads, std::size_t tile_bytes);

/// Fills the parameter for these chunks without the coefficients; returns their place.
std::uint8_t* begin_args(KernelArgs& args, const ChunkViews& chunks, Verb verb);
/// The parameter for these chunks, whose targets belong to the matrix's rows from first_row on.
KernelArgs args_for(const ChunkViews& chunks, const gf::Matrix& matrix, unsigned first_row, Verb verb);

/// A kernel with the one parameter at `args`, in blocks of `threads` in a row.
inline CUresult launch_blocks(const Device& device, CUfunction function, unsigned blocks, unsigned threads,
                              std::size_t shared_bytes, CUstream stream, void* args) {
  return device.driver().launch_kernel(function, blocks, 1, 1, threads, 1, 1,
                                       static_cast<unsigned>(shared_bytes), stream, &args, nullptr);
}

}  // namespace ec::kernels::cuda
