// What a launch of a tile kernel does, on the host: the same mapping of blocks and threads to rows and words,
// so that a grid that does not cover the result leaves it unwritten here too.
#pragma once

#include <cuda.h>

#include "kernels/cuda/tile_args.hpp"

namespace ec::test::emulated {

struct Launch {
  unsigned word_bytes;
  unsigned grid_x, grid_y, block_x, block_y;
  unsigned shared_bytes;
  kernels::cuda::TileArgs args;
};

/// CUDA_SUCCESS, or what the device would have answered: an address that is not a multiple of the word, too
/// little shared memory, an impossible launch.
CUresult check(const Launch& launch);
void run(const Launch& launch, bool corrupt);

}  // namespace ec::test::emulated
