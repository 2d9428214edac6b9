// Chooses launches for the rungs, and makes them.
#include "bench/kernels/ladder/rungs.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include "bench/kernels/ladder/shapes.hpp"
#include "kernels/cuda/kernels/tile_args.hpp"

extern "C" const unsigned char ec_fatbin_naive[];
extern "C" const unsigned char ec_fatbin_square_tile[];
extern "C" const unsigned char ec_fatbin_rectangular_tile[];
extern "C" const unsigned char ec_fatbin_register_tile[];
extern "C" const unsigned char ec_fatbin_tile_kernel[];

namespace ec::bench::ladder {
namespace {

using kernels::cuda::ChunkViews;
using kernels::cuda::TileArgs;

/// Of every chunk, at least.
constexpr std::size_t alignment = 256;

/// Kernels walk the columns in strides of the grid, so a bound on the blocks costs no coverage. High enough
/// that a long chunk gives every block one step, which keeps more fetches in flight than few blocks with many
/// steps.
constexpr std::size_t most_blocks = std::size_t{1} << 20;

unsigned ceil_div(std::size_t a, std::size_t b) { return static_cast<unsigned>((a + b - 1) / b); }

unsigned blocks_for(std::size_t bytes, std::size_t block_bytes) {
  return static_cast<unsigned>(std::min((bytes + block_bytes - 1) / block_bytes, most_blocks));
}

/// Blocks that copy the logarithms first need several steps each for that to be small.
unsigned blocks_with_log_tables(const Product& p, std::size_t block_bytes) {
  constexpr std::size_t blocks_per_multiprocessor = 32;
  return static_cast<unsigned>(
      std::min<std::size_t>(blocks_for(p.bytes, block_bytes),
                            blocks_per_multiprocessor * static_cast<std::size_t>(p.multiprocessors)));
}

LaunchShape choose_naive(const Product& p) {
  return {"ec_naive", blocks_with_log_tables(p, naive_threads), p.targets, naive_threads, 1};
}

LaunchShape choose_square(const Product& p) {
  return {"ec_square_tile", blocks_with_log_tables(p, square_side), ceil_div(p.targets, square_side),
          square_side, square_side};
}

LaunchShape choose_rectangle(const Product& p) {
  return {"ec_rectangular_tile", blocks_with_log_tables(p, rectangle_threads * rectangle_columns_per_thread),
          ceil_div(p.targets, rectangle_rows), rectangle_threads, rectangle_rows};
}

constexpr const char* tile_functions[] = {"ec_tile_w8", "ec_tile_w16", "ec_tile_w32", "ec_tile_w64",
                                          "ec_tile_w128"};

/// choose_tile() narrows words for short chunks; a rung does not, so that it shows its word alone.
template <unsigned Word>
LaunchShape choose_word(const Product& p) {
  auto s = kernels::cuda::choose_tile(p.bytes, p.sources, p.targets, alignment, p.multiprocessors);
  s.word_bytes = Word;
  return {tile_functions[std::countr_zero(Word)],
          blocks_for(p.bytes, std::size_t{Word} * s.columns),
          s.grid_y,
          s.columns,
          s.row_groups,
          s.shared_bytes(),
          s.depth};
}

LaunchShape choose_registers(const Product& p) {
  struct Kernel {
    const char* function;
    unsigned rows;
    unsigned packs;  // of 16 bytes a thread
  };
  constexpr Kernel by_rows[] = {{"ec_register_tile_2", 2, 2},
                                {"ec_register_tile_3", 3, 2},
                                {"ec_register_tile_4", 4, 2},
                                {"ec_register_tile_8", 8, 1}};
  const Kernel* kernel = by_rows;
  while (kernel->rows < p.targets && kernel + 1 < std::end(by_rows)) ++kernel;
  LaunchShape s{kernel->function, blocks_for(p.bytes, std::size_t{16} * register_threads * kernel->packs),
                ceil_div(p.targets, kernel->rows), register_threads, 1};
  s.depth = std::min(p.sources, register_depth);
  s.shared_bytes = s.depth * kernel->rows * table_bytes;
  return s;
}

void launch_rows(GpuKernels& kernels, int multiprocessors, const Rung& rung, const gf::Matrix& matrix,
                 unsigned first_row, const ChunkViews& chunks, CUstream stream) {
  TileArgs args;
  args.bytes = chunks.bytes;
  args.sources = static_cast<std::uint32_t>(chunks.sources.size());
  args.targets = static_cast<std::uint32_t>(chunks.targets.size());
  args.accumulate = 0;
  fill_blob(args.blob, chunks, matrix, first_row);
  const LaunchShape s = rung.choose({chunks.bytes, args.sources, args.targets, multiprocessors});
  args.tile_depth = s.depth;
  void* parameters[] = {&args};
  require(gpu_driver().launch_kernel(kernels.find(rung.image, s.function), s.grid_x, s.grid_y, 1, s.block_x,
                                     s.block_y, 1, static_cast<unsigned>(s.shared_bytes), stream, parameters,
                                     nullptr),
          "cuLaunchKernel");
}

}  // namespace

std::span<const Rung> rungs() {
  static const Rung list[] = {
      {"cuda-naive", ec_fatbin_naive, "ec_naive", choose_naive},
      {"cuda-square-tile", ec_fatbin_square_tile, "ec_square_tile", choose_square},
      {"cuda-rectangular-tile", ec_fatbin_rectangular_tile, "ec_rectangular_tile", choose_rectangle},
      {"cuda-tile-w8", ec_fatbin_tile_kernel, "ec_tile_w8", choose_word<1>},
      {"cuda-tile-w16", ec_fatbin_tile_kernel, "ec_tile_w16", choose_word<2>},
      {"cuda-tile-w32", ec_fatbin_tile_kernel, "ec_tile_w32", choose_word<4>},
      {"cuda-tile-w64", ec_fatbin_tile_kernel, "ec_tile_w64", choose_word<8>},
      {"cuda-tile-w128", ec_fatbin_tile_kernel, "ec_tile_w128", choose_word<16>},
      {"cuda-register-tile", ec_fatbin_register_tile, "ec_register_tile_8", choose_registers}};
  return list;
}

void launch(GpuKernels& kernels, int multiprocessors, const Rung& rung, const gf::Matrix& matrix,
            const ChunkViews& chunks, CUstream stream) {
  const std::size_t rows = chunks.targets.size();
  std::size_t most = rows;
  while (TileArgs::blob_needed(chunks.sources.size(), most) > TileArgs::blob_bytes) --most;
  for (std::size_t first = 0; first < rows; first += most) {
    ChunkViews group = chunks;
    group.targets = chunks.targets.subspan(first, std::min(most, rows - first));
    launch_rows(kernels, multiprocessors, rung, matrix, static_cast<unsigned>(first), group, stream);
  }
}

}  // namespace ec::bench::ladder
