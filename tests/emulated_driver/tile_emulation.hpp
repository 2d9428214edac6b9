// What a launch of a tile kernel does, on the host: the same mapping of blocks and threads to rows and words,
// so that a grid that does not cover the result leaves it unwritten here too.
#pragma once

#include <cuda.h>

#include <string_view>

#include "bench/xor_args.hpp"
#include "kernels/cuda/tile_args.hpp"

namespace ec::test::emulated {

/// A kernel as cuModuleGetFunction finds it.
struct Kernel {
  std::string_view name;
  unsigned word_bytes;    ///< addresses must be multiples of it
  unsigned rows;          ///< targets that a block computes, for each of its rows of threads
  unsigned block_x;       ///< what it must be launched with; 0: anything
  unsigned block_y;       ///< the same
  unsigned shared_bytes;  ///< it needs for each source that is staged; times block_x if is_tile
  bool is_tile;
};

/// Null if there is no kernel of that name.
const Kernel* find_kernel(std::string_view name);

/// Whether it is one of the XOR kernels, which take ec::bench::XorArgs and are only ever run by run_xor().
bool is_xor(const Kernel& kernel);
void run_xor(const bench::XorArgs& args);

struct Launch {
  const Kernel* kernel;
  unsigned grid_x, grid_y, block_x, block_y;
  unsigned shared_bytes;
  kernels::cuda::TileArgs args;
};

/// CUDA_SUCCESS, or what the device would have answered: an address that is not a multiple of the word, too
/// little shared memory, an impossible launch.
CUresult check(const Launch& launch);
void run(const Launch& launch, bool corrupt);

}  // namespace ec::test::emulated
