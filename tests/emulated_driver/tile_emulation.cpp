#include "tests/emulated_driver/tile_emulation.hpp"

#include <algorithm>
#include <cstring>

#include "tests/emulated_driver/memory.hpp"
#include "tests/support/oracle.hpp"

namespace ec::test::emulated {
namespace {

using kernels::cuda::rows_per_thread;
using kernels::cuda::TileArgs;

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

void run_word(const Launch& launch, unsigned row, std::uint64_t from) {
  const TileArgs& args = launch.args;
  const std::uint64_t to = std::min<std::uint64_t>(from + launch.word_bytes, args.bytes);
  std::uint8_t* target = view(pointer(args, args.sources + row));
  for (std::uint64_t i = from; i < to; ++i) {
    std::uint8_t sum = args.accumulate ? target[i] : 0;
    for (unsigned s = 0; s < args.sources; ++s)
      sum ^= oracle::mul(coefficient(args, row, s), view(pointer(args, s))[i]);
    target[i] = sum;
  }
}

}  // namespace

CUresult check(const Launch& l) {
  if (l.grid_x == 0 || l.grid_y == 0 || l.block_x == 0 || l.block_y == 0) return CUDA_ERROR_INVALID_VALUE;
  if (l.block_x * l.block_y > most_threads || l.grid_y > most_grid_y || l.shared_bytes > most_shared_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (l.args.tile_depth == 0 ||
      l.shared_bytes < std::size_t{l.args.tile_depth} * l.block_x * std::max(l.word_bytes, 4u))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (unsigned i = 0; i < l.args.sources + l.args.targets; ++i)
    if (reinterpret_cast<std::uintptr_t>(pointer(l.args, i)) % l.word_bytes != 0)
      return CUDA_ERROR_MISALIGNED_ADDRESS;
  return CUDA_SUCCESS;
}

void run(const Launch& l, bool corrupt) {
  const std::uint64_t words = (l.args.bytes + l.word_bytes - 1) / l.word_bytes;
  const unsigned rows = std::min(l.grid_y * l.block_y * rows_per_thread, l.args.targets);
  for (unsigned row = 0; row < rows; ++row)
    for (std::uint64_t word = 0; word < words; ++word) run_word(l, row, word * l.word_bytes);
  if (corrupt && l.args.targets != 0 && l.args.bytes != 0) view(pointer(l.args, l.args.sources))[0] ^= 1;
}

}  // namespace ec::test::emulated
