// How the table kernels are launched, and when they pay.
#include "kernels/cuda/kernels/launches.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

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

/// Rows of one launch: `rows` by table, and the row of ones first if `ones`.
struct Pass {
  std::span<const unsigned> rows;
  bool ones;
};

unsigned kernel_for(const Pass& pass) {
  const unsigned by_table = static_cast<unsigned>(pass.rows.size()) - pass.ones;
  unsigned i = 0;
  while (table_kernels[i].rows != by_table || table_kernels[i].ones != unsigned{pass.ones}) ++i;
  return i;
}

CUresult launch_pass(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks,
                     const Pass& pass, Verb verb, CUstream stream) {
  std::array<std::uint8_t*, gf::max_chunks> all;  // no allocation in a launch
  const auto end =
      std::ranges::transform(pass.rows, all.begin(), [&](unsigned row) { return chunks.targets[row]; });
  const std::span<std::uint8_t* const> targets(all.begin(), end.out);
  KernelArgs args;
  std::uint8_t* coefficients = begin_args(args, {chunks.sources, targets, chunks.bytes}, verb);
  for (const unsigned row : pass.rows.subspan(pass.ones))
    coefficients = std::ranges::copy(matrix.row(row), coefficients).out;

  const unsigned kernel = kernel_for(pass);
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
// A row of ones costs little by tables, and as much as any on the tensor cores: 8+3 0.93, 10+4 0.82, 12+4
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
  std::vector<unsigned> rows;
  const unsigned ones = row_of_ones(matrix);
  if (ones < matrix.rows()) rows.push_back(ones);
  for (unsigned r = 0; r < matrix.rows(); ++r)
    if (r != ones) rows.push_back(r);
  std::span<const unsigned> left = rows;
  for (bool with_ones = ones < matrix.rows(); !left.empty(); with_ones = false) {
    std::size_t count = std::min<std::size_t>(left.size(), most_table_rows);
    while (!KernelArgs::fit(sources, count, count - with_ones)) --count;
    const auto r = launch_pass(device, matrix, chunks, {left.first(count), with_ones}, verb, stream);
    if (r != CUDA_SUCCESS) return r;
    left = left.subspan(count);
  }
  return CUDA_SUCCESS;
}

}  // namespace ec::kernels::cuda
