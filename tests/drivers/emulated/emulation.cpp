// Checks and runs launches of the tile, table and bit kernels.
#include "tests/drivers/emulated/emulation.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

#include "kernels/cuda/kernels/bit_args.hpp"
#include "kernels/cuda/kernels/table_args.hpp"
#include "kernels/cuda/kernels/tile_args.hpp"
#include "tests/common/oracle.hpp"
#include "tests/drivers/emulated/memory.hpp"

namespace ec::test::emulated {
namespace {

using kernels::cuda::BitArgs;
using kernels::cuda::BitShape;
using kernels::cuda::TableArgs;
using kernels::cuda::TableKernel;
using kernels::cuda::TileArgs;

constexpr unsigned most_shared_bytes = 48 * 1024;  // without asking for more
constexpr unsigned most_threads = 1024;
constexpr unsigned most_grid_y = 65535;

std::map<std::string, Kernel> make_kernels() {
  std::map<std::string, Kernel> known;
  for (const unsigned bytes : {1, 2, 4, 8, 16})
    known["ec_tile_w" + std::to_string(8 * bytes)] = {Kernel::Kind::tile, bytes};
  for (unsigned i = 0; i < std::size(kernels::cuda::bit_shapes); ++i)
    for (const bool half : {false, true})
      known["ec_bits_q" + std::to_string(kernels::cuda::bit_shapes[i].quads) + (half ? "_half" : "_any")] = {
          Kernel::Kind::bits, i, half};
  for (unsigned i = 0; i < std::size(kernels::cuda::table_kernels); ++i)
    known["ec_table_r" + std::to_string(kernels::cuda::table_kernels[i].rows) + "_" +
          std::to_string(kernels::cuda::table_kernels[i].ones)] = {Kernel::Kind::table, i};
  return known;
}

template <class Args>
const Args& args_of(const Launch& l) {
  return *reinterpret_cast<const Args*>(l.parameter.data());
}

/// What every kind of parameter says: addresses, then coefficients row by row, but for `ones` rows of ones.
struct Work {
  const std::uint8_t* blob;
  unsigned sources, targets;
  bool accumulate;
  unsigned ones = 0;

  std::uint8_t* chunk(unsigned index) const {
    std::uint8_t* p = nullptr;
    std::memcpy(&p, blob + 8 * index, 8);
    return p;
  }
  std::uint8_t coefficient(unsigned row, unsigned source) const {
    return row < ones ? 1 : blob[8 * (sources + targets) + (row - ones) * sources + source];
  }
  void code(unsigned row, std::uint64_t bytes) const {
    std::uint8_t* target = view(chunk(sources + row));
    if (!accumulate) std::fill(target, target + bytes, 0);
    for (unsigned s = 0; s < sources; ++s) {
      const std::uint8_t* source = view(chunk(s));
      const std::uint8_t c = coefficient(row, s);
      for (std::uint64_t i = 0; i < bytes; ++i) target[i] ^= oracle::mul(c, source[i]);
    }
  }
};

const BitShape& bit_shape(const Launch& l) { return kernels::cuda::bit_shapes[l.kernel->size]; }
const TableKernel& table_kernel(const Launch& l) { return kernels::cuda::table_kernels[l.kernel->size]; }

Work work_of(const Launch& l) {
  if (l.kernel->kind == Kernel::Kind::table) {
    const auto& a = args_of<TableArgs>(l);
    const TableKernel& kernel = table_kernel(l);
    return {a.blob, a.sources, kernel.rows + kernel.ones, a.accumulate != 0, kernel.ones};
  }
  if (l.kernel->kind == Kernel::Kind::bits) {
    const auto& a = args_of<BitArgs>(l);
    return {a.blob, a.sources, a.targets, a.accumulate != 0};
  }
  const auto& a = args_of<TileArgs>(l);
  return {a.blob, a.sources, a.targets, a.accumulate != 0};
}

/// Whether the device can reach all bytes of every chunk.
bool all_reachable(const Work& work, std::uint64_t bytes, int ordinal) {
  for (unsigned i = 0; bytes != 0 && i < work.sources + work.targets; ++i)
    if (!reachable(work.chunk(i), bytes, ordinal)) return false;
  return true;
}

/// Of every chunk, as far as the launch codes it.
std::uint64_t bytes_of(const Launch& l) {
  if (l.kernel->kind == Kernel::Kind::table) return args_of<TableArgs>(l).bytes;
  if (l.kernel->kind == Kernel::Kind::bits) return args_of<BitArgs>(l).tiles * bit_shape(l).tile_bytes();
  return args_of<TileArgs>(l).bytes;
}

bool addresses_divide(const Work& work, std::uintptr_t by) {
  for (unsigned i = 0; i < work.sources + work.targets; ++i)
    if (reinterpret_cast<std::uintptr_t>(work.chunk(i)) % by != 0) return false;
  return true;
}

CUresult check_tile(const Launch& l) {
  const auto& a = args_of<TileArgs>(l);
  const std::size_t staged = std::size_t{a.tile_depth} * l.block_x * std::max(l.kernel->size, 4u);
  if (a.tile_depth == 0 || l.shared_bytes < staged) return CUDA_ERROR_ILLEGAL_ADDRESS;
  return addresses_divide(work_of(l), l.kernel->size) ? CUDA_SUCCESS : CUDA_ERROR_MISALIGNED_ADDRESS;
}

CUresult check_bits(const Launch& l) {
  const auto& a = args_of<BitArgs>(l);
  const BitShape& shape = bit_shape(l);
  if (l.block_x != kernels::cuda::bit_kernel_threads || l.block_y != 1 || l.grid_y != 1)
    return CUDA_ERROR_INVALID_VALUE;
  // The kernel takes the sources of full quads for granted.
  if (a.sources > 4 * shape.quads || a.sources < 4 * kernels::cuda::full_quads(shape.quads) ||
      (l.kernel->half && a.targets > kernels::cuda::most_half_targets) ||
      l.shared_bytes < kernels::cuda::bit_shared_bytes(shape.groups(), a.targets))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  return addresses_divide(work_of(l), 4 * shape.words) ? CUDA_SUCCESS : CUDA_ERROR_MISALIGNED_ADDRESS;
}

CUresult check_table(const Launch& l) {
  const auto& a = args_of<TableArgs>(l);
  if (l.block_x != kernels::cuda::table_threads || l.block_y != 1 || l.grid_y != 1)
    return CUDA_ERROR_INVALID_VALUE;
  const std::size_t tables = kernels::cuda::table_coefficient_bytes * a.sources * table_kernel(l).rows;
  const std::size_t unit = a.accumulate ? kernels::cuda::table_tile : 16;
  if (l.shared_bytes < tables || a.bytes < kernels::cuda::table_tile || a.bytes % unit != 0)
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  return addresses_divide(work_of(l), 16) ? CUDA_SUCCESS : CUDA_ERROR_MISALIGNED_ADDRESS;
}

}  // namespace

const Kernel* find_kernel(const std::string& name) {
  static const auto kernels = make_kernels();
  const auto at = kernels.find(name);
  return at == kernels.end() ? nullptr : &at->second;
}

std::size_t parameter_bytes(const Kernel& kernel) {
  switch (kernel.kind) {
    case Kernel::Kind::generated:
      return kernel.program->parameter_bytes();
    case Kernel::Kind::bits:
      return sizeof(BitArgs);
    case Kernel::Kind::table:
      return sizeof(TableArgs);
    case Kernel::Kind::tile:
      break;
  }
  return sizeof(TileArgs);
}

CUresult check(const Launch& l) {
  if (l.grid_x == 0 || l.grid_y == 0 || l.block_x == 0 || l.block_y == 0) return CUDA_ERROR_INVALID_VALUE;
  if (l.block_x * l.block_y > most_threads || l.grid_y > most_grid_y || l.shared_bytes > most_shared_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (l.kernel->kind == Kernel::Kind::generated) return check_generated(*l.kernel->program, l);
  if (!all_reachable(work_of(l), bytes_of(l), l.ordinal)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (l.kernel->kind == Kernel::Kind::tile) return check_tile(l);
  return l.kernel->kind == Kernel::Kind::table ? check_table(l) : check_bits(l);
}

void run(const Launch& l) {
  if (l.kernel->kind == Kernel::Kind::generated) {
    run_generated(*l.kernel->program, l);
    return;
  }
  const Work work = work_of(l);
  // Tile kernels walk the columns in strides of the grid, so that any grid_x covers them; the rows are the
  // grid's.
  unsigned rows = work.targets;
  if (l.kernel->kind == Kernel::Kind::tile)
    rows = std::min(l.grid_y * l.block_y * kernels::cuda::rows_per_thread, rows);
  for (unsigned row = 0; row < rows; ++row) work.code(row, bytes_of(l));
}

}  // namespace ec::test::emulated
