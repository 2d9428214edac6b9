#include "tests/emulated_driver/tile_emulation.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "kernels/cuda/ladder/shapes.hpp"
#include "tests/emulated_driver/memory.hpp"
#include "tests/support/oracle.hpp"

namespace ec::test::emulated {
namespace {

using kernels::cuda::rows_per_thread;
using kernels::cuda::TileArgs;
namespace ladder = kernels::cuda::ladder;

constexpr unsigned most_shared_bytes = 48 * 1024;  // without asking for more
constexpr unsigned most_threads = 1024;
constexpr unsigned most_grid_y = 65535;

std::uint8_t* pointer(const TileArgs& args, unsigned index) {
  std::uint8_t* p = nullptr;
  std::memcpy(&p, args.blob + 8 * index, 8);
  return p;
}

std::uint8_t coefficient(const TileArgs& args, unsigned row, unsigned source) {
  return args.blob[8 * (args.sources + args.targets) + row * args.sources + source];
}

constexpr Kernel known_kernels[] = {
    {"ec_tile_w8", 1, rows_per_thread, 0, 0, 4, true},
    {"ec_tile_w16", 2, rows_per_thread, 0, 0, 4, true},
    {"ec_tile_w32", 4, rows_per_thread, 0, 0, 4, true},
    {"ec_tile_w64", 8, rows_per_thread, 0, 0, 8, true},
    {"ec_tile_w128", 16, rows_per_thread, 0, 0, 16, true},
    {"ec_naive", 1, 1, ladder::naive_threads, 1, 0, false},
    {"ec_square_tile", 1, 1, ladder::square_side, ladder::square_side, 0, false},
    {"ec_rectangular_tile", 1, 1, ladder::rectangle_threads, ladder::rectangle_rows, 0, false},
    {"ec_register_tile_2", 16, 2, ladder::register_threads, 1, 2 * ladder::table_bytes, false},
    {"ec_register_tile_3", 16, 3, ladder::register_threads, 1, 3 * ladder::table_bytes, false},
    {"ec_register_tile_4", 16, 4, ladder::register_threads, 1, 4 * ladder::table_bytes, false},
    {"ec_register_tile_8", 16, 8, ladder::register_threads, 1, 8 * ladder::table_bytes, false},
    {"ec_register_tile_bytes", 1, 8, ladder::register_threads, 1, 8 * ladder::table_bytes, false},
#define EC_XOR_ENTRY(k) {"ec_xor_" #k, 16, 0, 0, 0, 0, false},
    EC_XOR_SOURCES(EC_XOR_ENTRY) EC_XOR_ENTRY(any)
#undef EC_XOR_ENTRY
};

void run_row(const TileArgs& args, unsigned row) {
  std::uint8_t* target = view(pointer(args, args.sources + row));
  if (!args.accumulate) std::memset(target, 0, args.bytes);
  for (unsigned s = 0; s < args.sources; ++s) {
    const std::uint8_t* source = view(pointer(args, s));
    const std::uint8_t c = coefficient(args, row, s);
    for (std::uint64_t i = 0; i < args.bytes; ++i) target[i] ^= oracle::mul(c, source[i]);
  }
}

}  // namespace

const Kernel* find_kernel(std::string_view name) {
  const auto* at = std::ranges::find(known_kernels, name, &Kernel::name);
  return at == std::end(known_kernels) ? nullptr : at;
}

bool is_xor(const Kernel& kernel) { return kernel.name.starts_with("ec_xor_"); }

void run_xor(const bench::XorArgs& args) {
  const auto* table =
      args.stripes == 1
          ? args.chunks
          : reinterpret_cast<const std::uint64_t*>(view(reinterpret_cast<const void*>(args.table)));
  for (std::uint64_t stripe = 0; stripe < args.stripes; ++stripe) {
    const auto* chunks = table + stripe * (args.sources + args.targets);
    for (unsigned t = 0; t < args.targets; ++t) {
      std::uint8_t* target = view(reinterpret_cast<const void*>(chunks[args.sources + t]));
      std::memset(target, 0, args.bytes);
      for (unsigned s = 0; s < args.sources; ++s) {
        const std::uint8_t* source = view(reinterpret_cast<const void*>(chunks[s]));
        for (std::uint64_t i = 0; i < args.bytes; ++i) target[i] ^= source[i];
      }
    }
  }
}

CUresult check(const Launch& l) {
  const Kernel& k = *l.kernel;
  if (l.grid_x == 0 || l.grid_y == 0 || l.block_x == 0 || l.block_y == 0) return CUDA_ERROR_INVALID_VALUE;
  if (l.block_x * l.block_y > most_threads || l.grid_y > most_grid_y || l.shared_bytes > most_shared_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if ((k.block_x != 0 && l.block_x != k.block_x) || (k.block_y != 0 && l.block_y != k.block_y))
    return CUDA_ERROR_INVALID_VALUE;
  const std::size_t needed = std::size_t{l.args.tile_depth} * k.shared_bytes * (k.is_tile ? l.block_x : 1);
  if (l.args.tile_depth == 0 || l.shared_bytes < needed) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (unsigned i = 0; i < l.args.sources + l.args.targets; ++i)
    if (reinterpret_cast<std::uintptr_t>(pointer(l.args, i)) % k.word_bytes != 0)
      return CUDA_ERROR_MISALIGNED_ADDRESS;
  return CUDA_SUCCESS;
}

void run(const Launch& l, bool corrupt) {
  // All kernels walk the columns in strides of the grid, so that any grid_x covers them.
  const unsigned rows = std::min(l.grid_y * l.block_y * l.kernel->rows, l.args.targets);
  for (unsigned row = 0; row < rows; ++row) run_row(l.args, row);
  if (corrupt && l.args.targets != 0 && l.args.bytes != 0) view(pointer(l.args, l.args.sources))[0] ^= 1;
}

}  // namespace ec::test::emulated
