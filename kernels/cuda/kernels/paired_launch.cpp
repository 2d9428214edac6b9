// How the kernels for paired matrices are launched, and when they pay.
#include "kernels/cuda/kernels/launches.hpp"

#include <algorithm>
#include <cstring>

namespace ec::kernels::cuda {
namespace {

/// Exchanges eight bytes in pairs: the numbers of a pair differ by h, which is 1, 2 or 4.
std::uint64_t exchanged(std::uint64_t bytes, unsigned h) {
  constexpr std::uint64_t first_of_two[] = {0x00ff00ff00ff00ff, 0x0000ffff0000ffff, 0x00000000ffffffff};
  const std::uint64_t mask = first_of_two[h / 2];
  return (bytes & mask) << 8 * h | (bytes >> 8 * h & mask);
}

/// The next eight cells; fewer at the end.
std::uint64_t cells_at(std::span<const std::uint8_t> row, std::size_t column) {
  std::uint64_t cells = 0;
  const auto rest = row.subspan(column);
  if (rest.size() >= sizeof cells)
    std::memcpy(&cells, rest.data(), sizeof cells);
  else
    std::ranges::copy(rest, reinterpret_cast<std::uint8_t*>(&cells));
  return cells;
}

/// Whether M(r ^ h, c ^ h) = M(r, c); the counts of rows and columns are multiples of 2 h. Every launch asks.
bool is_paired(const gf::Matrix& matrix, unsigned h) {
  for (unsigned r = 0; r < matrix.rows(); ++r) {
    if ((r & h) != 0) continue;
    const auto row = matrix.row(r), twin = matrix.row(r | h);
    for (std::size_t c = 0; c < row.size(); c += 8)
      if (cells_at(row, c) != exchanged(cells_at(twin, c), h)) return false;
  }
  return true;
}

/// Instructions of the tensor cores, in halves, for one position of each lane.
unsigned steps_of(const PairedShape& shape, unsigned targets) {
  constexpr unsigned products[] = {1, 3, 9, 27};
  return shape.row_blocks(targets) * shape.groups() * products[shape.pairs];
}

bool holds(const PairedShape& shape, const gf::Matrix& matrix) {
  const unsigned sources = matrix.cols(), targets = matrix.rows();
  return sources % shape.classes() == 0 && targets % shape.classes() == 0 &&
         sources <= 4 * shape.quads * shape.classes() && targets <= shape.most_targets() &&
         KernelArgs::fit(sources, targets, targets / shape.classes()) &&
         shape.shared_bytes(targets) <= most_shared_bytes;
}

}  // namespace

const PairedShape* paired_shape_for(const Device& device, const gf::Matrix& matrix, unsigned below) {
  const PairedShape* best = nullptr;
  if (device.info().compute_major < oldest_bit_compute_major) return best;
  unsigned pairs = 0;  // pairs found in the matrix
  for (const PairedShape& shape : paired_shapes) {
    const unsigned steps = steps_of(shape, matrix.rows());
    if (steps >= below || !holds(shape, matrix)) continue;
    while (pairs < shape.pairs && is_paired(matrix, 1u << pairs)) ++pairs;
    if (pairs < shape.pairs) continue;
    best = &shape;
    below = steps;
  }
  return best;
}

std::size_t paired_kernel_reach(const PairedShape& shape, const ChunkViews& chunks) {
  return chunks.alignment() < load_alignment ? 0 : chunks.bytes / shape.tile_bytes() * shape.tile_bytes();
}

CUresult launch_paired(const Device& device, const PairedShape& shape, const gf::Matrix& matrix,
                       const ChunkViews& chunks, CUstream stream) {
  KernelArgs args;
  std::uint8_t* coefficients = begin_args(args, chunks, Verb::transform);
  for (unsigned r = 0; r < matrix.rows(); r += shape.classes())
    coefficients = std::ranges::copy(matrix.row(r), coefficients).out;
  args.bytes = chunks.bytes / shape.tile_bytes();
  constexpr unsigned warps = bit_kernel_threads / 32;
  const std::uint64_t wanted = std::min<std::uint64_t>(
      (args.bytes + warps - 1) / warps, shape.blocks * static_cast<unsigned>(device.info().multiprocessors));
  const unsigned blocks = blocks_for(chunks, wanted, bit_kernel_threads, shape.tile_bytes());
  return launch_blocks(device, device.paired_kernel(static_cast<unsigned>(&shape - paired_shapes)), blocks,
                       bit_kernel_threads, shape.shared_bytes(args.targets), stream, &args);
}

}  // namespace ec::kernels::cuda
