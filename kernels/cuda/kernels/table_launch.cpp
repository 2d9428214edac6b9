// How the table kernels are launched, and when they pay.
#include "kernels/cuda/kernels/launches.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "gf/generator.hpp"
#include "kernels/cuda/kernels/table_args.hpp"

namespace ec::kernels::cuda {
namespace {

/// H200, 8+3 with a row of ones: 2 waves of resident blocks 0.89 of the copy, 4 waves 0.91, 8 waves 0.92, a
/// tile a warp 0.88.
constexpr unsigned waves = 8;

/// The first row of ones, or the number of rows if there is none.
unsigned row_of_ones(const gf::Matrix& matrix) {
  const auto is_one = [](std::uint8_t c) { return c == 1; };
  unsigned r = 0;
  while (r < matrix.rows() && !std::ranges::all_of(matrix.row(r), is_one)) ++r;
  return r;
}

/// The rows of a matrix in the order in which they are launched: a row of ones first, if there is one.
struct RowOrder {
  unsigned ones;  ///< `rows` if there is none
  unsigned rows;
  unsigned row(std::size_t i) const {
    const auto at = static_cast<unsigned>(i);
    return at > ones || ones == rows ? at : at == 0 ? ones : at - 1;
  }
};

/// Rows of one launch: so many from `first` on, by table; if `ones`, the first of them is a row of ones
/// without a table.
struct LaunchRows {
  RowOrder order;
  std::size_t first, count;
  bool ones;
};

unsigned kernel_for(const LaunchRows& rows) {
  const unsigned by_table = static_cast<unsigned>(rows.count) - rows.ones;
  unsigned i = 0;
  while (table_kernels[i].rows != by_table || table_kernels[i].ones != unsigned{rows.ones}) ++i;
  return i;
}

CUresult launch_rows(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks,
                     const LaunchRows& rows, Verb verb, CUstream stream) {
  std::array<std::uint8_t*, most_table_rows> targets;
  for (std::size_t i = 0; i < rows.count; ++i) targets[i] = chunks.targets[rows.order.row(rows.first + i)];
  ChunkViews views = chunks;
  views.targets = std::span(targets).first(rows.count);
  KernelArgs args;
  std::uint8_t* coefficients = begin_args(args, views, verb);
  for (std::size_t i = rows.ones; i < rows.count; ++i)
    coefficients = std::ranges::copy(matrix.row(rows.order.row(rows.first + i)), coefficients).out;

  const unsigned kernel = kernel_for(rows);
  constexpr std::size_t block_bytes = std::size_t{table_tile} * (table_threads / 32);
  const std::size_t wanted = std::min<std::size_t>((chunks.bytes + block_bytes - 1) / block_bytes,
                                                   std::size_t{waves} * table_kernels[kernel].blocks *
                                                       static_cast<unsigned>(device.info().multiprocessors));
  const unsigned blocks = blocks_for(chunks, wanted, table_threads, table_tile);
  const std::size_t shared = table_coefficient_bytes * chunks.sources.size() * table_kernels[kernel].rows;
  return launch_blocks(device, device.table_kernel(kernel), blocks, table_threads, shared, stream, &args);
}

}  // namespace

// H200, moved bytes to the copy of the run, by tables / on the tensor cores:
//   10+1 1.00 / -      4+2 0.97 / 0.38   16+2 0.82 to 0.89 / -   8+3 0.84 / 0.68   12+3 0.78 / 0.85
//   8+4 0.77 / 0.73   10+4 0.73 / 0.80   12+4 - / 0.87
// A row of ones costs little by tables, and as much as any row on the tensor cores: 8+3 0.93, 10+4 0.82, 12+4
// 0.79.
bool table_kernel_pays(const gf::Matrix& matrix) {
  const bool ones = row_of_ones(matrix) < matrix.rows();
  const unsigned by_table = matrix.rows() - ones;
  constexpr unsigned most_sources[] = {gf::max_chunks, gf::max_chunks, 16, 10, 8};
  if (by_table < std::size(most_sources)) return matrix.cols() <= most_sources[by_table];
  return matrix.cols() <= 4;
}

std::size_t table_kernel_reach(const ChunkViews& chunks, Verb verb) {
  if (chunks.bytes < table_tile || chunks.alignment() < load_alignment ||
      !KernelArgs::fit(chunks.sources.size(), 1))
    return 0;
  // Tiles that overlap would be added twice.
  const std::size_t unit = verb == Verb::accumulate ? table_tile : load_alignment;
  return chunks.bytes / unit * unit;
}

CUresult launch_tables(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks, Verb verb,
                       CUstream stream) {
  const std::size_t sources = chunks.sources.size();
  const RowOrder order{row_of_ones(matrix), matrix.rows()};
  bool with_ones = order.ones < order.rows;
  for (std::size_t first = 0, count = 0; first < order.rows; first += count, with_ones = false) {
    count = std::min<std::size_t>(order.rows - first, most_table_rows);
    while (!KernelArgs::fit(sources, count, count - with_ones)) --count;
    const auto r = launch_rows(device, matrix, chunks, {order, first, count, with_ones}, verb, stream);
    if (r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace ec::kernels::cuda
