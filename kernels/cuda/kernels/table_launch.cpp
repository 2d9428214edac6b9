// How the table kernels are launched, and when they pay.
#include "kernels/cuda/kernels/launches.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include "gf/generator.hpp"

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

/// `rows` by table; if `ones`, the first of them is a row of ones without a table.
CUresult launch_rows(const Work& work, std::span<const std::uint8_t> rows, bool ones) {
  std::array<std::uint8_t*, most_table_rows> targets;
  std::ranges::transform(rows, targets.begin(), [&](auto row) { return work.chunks.targets[row]; });
  ChunkViews views = work.chunks;
  views.targets = std::span(targets).first(rows.size());
  KernelArgs args;
  std::uint8_t* coefficients = begin_args(args, views, work.verb);
  for (const std::uint8_t row : rows.subspan(ones))
    coefficients = std::ranges::copy(work.matrix.row(row), coefficients).out;
  unsigned i = 0;
  while (table_kernels[i].rows + ones != rows.size() || table_kernels[i].ones != unsigned{ones}) ++i;
  const TableKernel& kernel = table_kernels[i];
  const Grid grid{table_threads, table_tile, std::size_t{waves} * kernel.blocks,
                  table_coefficient_bytes * views.sources.size() * kernel.rows};
  return launch_warps(work, work.device.table_kernel(i), grid, &args);
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

CUresult launch_tables(const Work& work) {
  // A row of ones is launched first.
  std::array<std::uint8_t, gf::max_chunks> order;
  const std::span rows(order.data(), work.matrix.rows());
  std::iota(rows.begin(), rows.end(), std::uint8_t{0});
  const unsigned row = row_of_ones(work.matrix);
  bool ones = row < rows.size();
  if (ones) std::rotate(rows.begin(), rows.begin() + row, rows.begin() + row + 1);
  for (std::size_t first = 0, count = 0; first < rows.size(); first += count, ones = false) {
    count = std::min<std::size_t>(rows.size() - first, most_table_rows);
    while (!KernelArgs::fit(work.chunks.sources.size(), count, count - ones)) --count;
    if (const auto r = launch_rows(work, rows.subspan(first, count), ones); r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace ec::kernels::cuda
