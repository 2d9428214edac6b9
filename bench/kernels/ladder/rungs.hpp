// The ladder: the product by ever better kernels. A rung says which kernels it has, and how it cuts a product
// into launches.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "bench/common/gpu.hpp"
#include "gf/matrix.hpp"
#include "kernels/cuda/kernels/launches.hpp"

namespace ec::bench::ladder {

/// What a launch depends on. All > 0.
struct Product {
  std::size_t bytes = 0;
  unsigned sources = 0;
  unsigned targets = 0;
  int multiprocessors = 0;
};

struct LaunchShape {
  const char* function = nullptr;
  unsigned grid_x = 1;
  unsigned grid_y = 1;
  unsigned block_x = 1;
  unsigned block_y = 1;
  std::size_t shared_bytes = 0;  ///< dynamic
  unsigned depth = 1;            ///< TileArgs::tile_depth
};

struct Rung {
  std::string_view name;       ///< in reports
  const unsigned char* image;  ///< the fat binary with its kernels
  const char* function;        ///< one of them
  LaunchShape (*choose)(const Product& product);
};

/// From the textbook kernel up: cuda-naive, cuda-square-tile, cuda-rectangular-tile, cuda-tile-w8 (the
/// generalised tile, sizes chosen at run time, on single bytes), -w16, -w32, -w64, -w128 (the same on packed
/// words), cuda-register-tile. Each takes any shape, on chunks that are aligned to 256 bytes and as long as a
/// multiple of 16.
std::span<const Rung> rungs();

/// Enqueues the product by `rung` on `stream`: one launch, or several where the parameter of one does not
/// hold all rows. The chunks must stay until the stream has passed; the context must be current. Throws
/// std::runtime_error; earlier launches are under way then.
void launch(GpuKernels& kernels, int multiprocessors, const Rung& rung, const gf::Matrix& matrix,
            const kernels::cuda::ChunkViews& chunks, CUstream stream);

}  // namespace ec::bench::ladder
