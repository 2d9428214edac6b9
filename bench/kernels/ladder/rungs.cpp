// The ladder: the product by ever better kernels. Chooses the launches of the rungs, and makes them.
#include <algorithm>
#include <bit>
#include <iterator>

#include "bench/kernels/contestants.hpp"
#include "bench/kernels/ladder/shapes.hpp"
#include "kernels/cuda/kernels/kernel_args.hpp"

extern "C" const unsigned char ec_fatbin_log_kernels[];
extern "C" const unsigned char ec_fatbin_register_tile[];
extern "C" const unsigned char ec_fatbin_tile_kernel[];

namespace ec::bench {
namespace {

using namespace ladder;
using kernels::cuda::KernelArgs;

/// What a launch depends on. All > 0.
struct Product {
  std::size_t bytes;
  unsigned sources;
  unsigned targets;
  int multiprocessors;
};

struct Launch {
  const char* function;
  std::pair<unsigned, unsigned> grid;
  std::pair<unsigned, unsigned> block;
  std::size_t shared_bytes = 0;  ///< dynamic
  unsigned depth = 1;            ///< KernelArgs::tile_depth
};

struct Rung {
  const char* name;            ///< in reports
  const unsigned char* image;  ///< the fat binary with its kernels
  Launch (*choose)(const Product& product);
};

/// Of every chunk, at least.
constexpr std::size_t alignment = 256;

/// Kernels walk the columns in strides of the grid, so a bound on the blocks costs no coverage. High enough
/// that a long chunk gives every block one step, which keeps more fetches in flight than few blocks with many
/// steps.
constexpr std::size_t most_blocks = std::size_t{1} << 20;

unsigned ceil_div(std::size_t a, std::size_t b) { return static_cast<unsigned>((a + b - 1) / b); }

unsigned blocks_for(std::size_t bytes, std::size_t block_bytes, std::size_t most = most_blocks) {
  return static_cast<unsigned>(std::min((bytes + block_bytes - 1) / block_bytes, most));
}

/// Blocks that copy the logarithms first need several steps each for that to be small.
unsigned blocks_with_log_tables(const Product& p, std::size_t block_bytes) {
  return blocks_for(p.bytes, block_bytes, 32 * static_cast<std::size_t>(p.multiprocessors));
}

Launch naive(const Product& p) {
  return {"ec_naive", {blocks_with_log_tables(p, naive_threads), p.targets}, {naive_threads, 1}};
}

Launch square_tile(const Product& p) {
  return {"ec_square_tile",
          {blocks_with_log_tables(p, square_side), ceil_div(p.targets, square_side)},
          {square_side, square_side}};
}

Launch rectangular_tile(const Product& p) {
  constexpr unsigned width = rectangle_threads * rectangle_columns_per_thread;
  return {"ec_rectangular_tile",
          {blocks_with_log_tables(p, width), ceil_div(p.targets, rectangle_rows)},
          {rectangle_threads, rectangle_rows}};
}

/// choose_tile() narrows words for short chunks; a rung does not, so that it shows its word alone.
template <unsigned Word>
Launch tile(const Product& p) {
  constexpr const char* functions[] = {"ec_tile_w8", "ec_tile_w16", "ec_tile_w32", "ec_tile_w64",
                                       "ec_tile_w128"};
  auto s = kernels::cuda::choose_tile(p.bytes, p.sources, p.targets, alignment, p.multiprocessors);
  s.word_bytes = Word;
  return {functions[std::countr_zero(Word)],
          {blocks_for(p.bytes, std::size_t{Word} * s.columns), s.grid_y},
          {s.columns, s.row_groups},
          s.shared_bytes(),
          s.depth};
}

Launch register_tile(const Product& p) {
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
  const unsigned depth = std::min(p.sources, register_depth);
  return {kernel->function,
          {blocks_for(p.bytes, std::size_t{16} * register_threads * kernel->packs),
           ceil_div(p.targets, kernel->rows)},
          {register_threads, 1},
          depth * kernel->rows * table_bytes,
          depth};
}

/// tile: the generalised tile, sizes chosen at run time, on single bytes and on packed words.
constexpr Rung rungs[] = {{"cuda-naive", ec_fatbin_log_kernels, naive},
                          {"cuda-square-tile", ec_fatbin_log_kernels, square_tile},
                          {"cuda-rectangular-tile", ec_fatbin_log_kernels, rectangular_tile},
                          {"cuda-tile-w8", ec_fatbin_tile_kernel, tile<1>},
                          {"cuda-tile-w16", ec_fatbin_tile_kernel, tile<2>},
                          {"cuda-tile-w32", ec_fatbin_tile_kernel, tile<4>},
                          {"cuda-tile-w64", ec_fatbin_tile_kernel, tile<8>},
                          {"cuda-tile-w128", ec_fatbin_tile_kernel, tile<16>},
                          {"cuda-register-tile", ec_fatbin_register_tile, register_tile}};

/// One launch, or several where the parameter of one does not hold all rows.
void launch(GpuKernels& kernels, const Rung& rung, const StripeBatch& batch, CUstream stream) {
  const unsigned rows = batch.targets();
  unsigned most = rows;
  while (!KernelArgs::fit(batch.sources(), most)) --most;
  for (unsigned first = 0; first < rows; first += most) {
    auto chunks = batch.only_stripe();
    chunks.targets = chunks.targets.subspan(first, std::min(most, rows - first));
    auto args = args_for(chunks, batch.program->matrix(), first, kernels::Verb::transform);
    const Launch l =
        rung.choose({args.bytes, args.sources, args.targets, kernels.device().info().multiprocessors});
    args.tile_depth = l.depth;
    kernels.launch(rung.image, l.function, l.grid, l.block, l.shared_bytes, &args, stream);
  }
}

}  // namespace

std::vector<KernelContestant> ladder_contestants(const std::shared_ptr<GpuKernels>& kernels,
                                                 std::vector<std::string>* left_out) {
  std::vector<KernelContestant> list;
  for (const Rung& rung : rungs) {
    const Product any{1, 1, 1, 1};
    if (kernels->find(rung.image, rung.choose(any).function) == nullptr)
      left_out->emplace_back(rung.name);
    else
      list.push_back(
          {rung.name, [](const StripeBatch& b) { return b.stripes == 1; },
           [kernels, &rung](const StripeBatch& b, CUstream stream) { launch(*kernels, rung, b, stream); }});
  }
  return list;
}

}  // namespace ec::bench
