// How the table kernels are launched, and when they pay.
#include "kernels/cuda/kernels/launches.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include "gf/generator.hpp"

namespace ec::kernels::cuda {
namespace {

/// H100, decode of 8+4 and 10+4, of the copy, groups of two sources: 1 wave of resident blocks 0.91 and 0.91,
/// 8 waves 0.95 and 0.95, 16 waves 0.95 and 0.93, 32 waves 0.94 and 0.92.
constexpr unsigned waves = 8;

/// The first row of ones, or the number of rows if there is none.
unsigned row_of_ones(const gf::Matrix& matrix) {
  const auto is_one = [](std::uint8_t c) { return c == 1; };
  unsigned r = 0;
  while (r < matrix.rows() && !std::ranges::all_of(matrix.row(r), is_one)) ++r;
  return r;
}

// For kernel_for, which takes the last one that fits.
static_assert(std::ranges::is_sorted(table_kernels, {}, &TableKernel::targets));
static_assert(table_kernels[0].shared_bytes(gf::max_chunks) <= most_shared_bytes);
constexpr unsigned most_rows = std::rbegin(table_kernels)->rows;

/// The kernel that takes most of the first `rows`. ones: the first row is one of ones.
const TableKernel& kernel_for(std::size_t sources, std::size_t rows, bool ones) {
  const TableKernel* best = nullptr;
  for (const TableKernel& kernel : table_kernels)
    if (kernel.targets() <= rows && kernel.ones <= unsigned{ones} &&
        kernel.shared_bytes(sources) <= most_shared_bytes &&
        KernelArgs::fit(sources, kernel.targets(), kernel.rows))
      best = &kernel;
  return *best;
}

CUresult launch_table(const Work& work, const TableKernel& kernel, std::span<const std::uint8_t> rows) {
  std::array<std::uint8_t*, most_rows> targets;
  std::ranges::transform(rows, targets.begin(), [&](auto row) { return work.chunks.targets[row]; });
  ChunkViews views = work.chunks;
  views.targets = std::span(targets).first(rows.size());
  KernelArgs args;
  std::uint8_t* coefficients = begin_args(args, views, work.verb);
  for (const std::uint8_t row : rows.subspan(kernel.ones))
    coefficients = std::ranges::copy(work.matrix.row(row), coefficients).out;
  const Grid grid{table_threads, table_tile, std::size_t{waves} * kernel.blocks,
                  kernel.shared_bytes(views.sources.size())};
  const auto index = static_cast<unsigned>(&kernel - std::data(table_kernels));
  return launch_warps(work, work.device.table_kernel(index), grid, &args);
}

}  // namespace

// H200, m lost, chunks of 28 to 46 MB, moved bytes to the copy of the run, by tables / on the tensor cores
// (24+2 and more than six lost on another host, by earlier kernels):
//   24+2 0.95 / 0.98    8+3 0.92 / 0.74   10+3 0.87 / 0.81   12+3 0.87 / 0.90   14+3 0.84 / 0.95
//    9+4 0.83 / 0.80   10+4 0.78 / 0.84   11+4 0.78 / 0.90   12+4 0.78 / 0.92   10+5 0.72 / 0.68
//   12+5 0.71 / 0.75   10+6 0.67 / 0.71   12+6 0.66 / 0.77    9+7 0.67 / 0.60   10+7 0.63 / 0.63
//    8+8 0.65 / 0.60
// The same of 2, 4 and 9 MB: 10+4 0.57 / 0.60, 0.63 / 0.65, 0.71 / 0.72; 12+3 0.62 / 0.63, 0.77 / 0.73,
// 0.79 / 0.75. Encode with a row of ones, and the same of chunks of 1 MiB: 12+3 0.96 / 0.88, 0.51 / 0.43;
// 14+3 0.93 / 0.94, 0.53 / 0.46; 11+4 0.87 / 0.88, 0.48 / 0.44; 12+4 0.91 / 0.95, 0.50 / 0.45; 16+4 0.81 /
// 0.94, 0.51 / 0.52. Other chips were not measured, but an H100 with earlier tensor-core kernels: 24+3 0.96
// / 0.95; chunks of 256 KiB, 16+4 0.25 / 0.27, 18+5 0.25 / 0.20; of 64 KiB, 9+6 0.07 / 0.07, 12+4 0.07 /
// 0.08, 16+4 0.07 / 0.10. So tensor cores, whose tiles are short, take chunks of fewer tiles than the chip
// has multiprocessors.
bool table_kernel_pays(const Work& work) {
  if (work.device.info().compute_major < oldest_bit_compute_major) return true;
  const gf::Matrix& matrix = work.matrix;
  const TableKernel& kernel = kernel_for(matrix.cols(), matrix.rows(), row_of_ones(matrix) < matrix.rows());
  if (kernel.targets() < matrix.rows()) return matrix.cols() <= 4;
  constexpr unsigned most_sources[] = {gf::max_chunks, gf::max_chunks, 20, 12, 9, 11, 9, 10, 8};
  static_assert(std::size(most_sources) == most_rows + 1);
  unsigned most = most_sources[kernel.rows];
  const bool is_short = work.chunks.bytes / table_tile < work.device.info().multiprocessors;
  if (kernel.rows > 2 && is_short) most = std::min(most, 8u);
  return matrix.cols() <= most;
}

std::size_t table_kernel_reach(const ChunkViews& chunks, Verb verb) {
  if (chunks.bytes < table_tile || chunks.alignment() < load_alignment) return 0;
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
  const bool ones = row < rows.size();
  if (ones) std::rotate(rows.begin(), rows.begin() + row, rows.begin() + row + 1);
  for (std::size_t first = 0, count = 0; first < rows.size(); first += count) {
    const TableKernel& kernel =
        kernel_for(work.chunks.sources.size(), rows.size() - first, ones && first == 0);
    count = kernel.targets();
    if (const auto r = launch_table(work, kernel, rows.subspan(first, count)); r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace ec::kernels::cuda
