// The rungs as data: which kernels a rung has, and how it cuts a product into a launch.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace ec::kernels::cuda::ladder {

/// What a launch depends on. alignment: the largest power of two that divides every chunk's address. All > 0.
struct Product {
  std::size_t bytes = 0;
  unsigned sources = 0;
  unsigned targets = 0;
  std::size_t alignment = 0;
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
  std::string_view name;       ///< of its back end and in reports
  const unsigned char* image;  ///< the fat binary with its kernels
  LaunchShape (*choose)(const Product& product);
};

/// From the textbook kernel up: cuda-naive, cuda-square-tile, cuda-rectangular-tile, cuda-tile-w8 (the
/// generalised tile, sizes chosen at run time, on single bytes), -w16, -w32, -w64, -w128 (the same on packed
/// words), cuda-register-tile. Each takes any shape, length and alignment: where chunks are not aligned to a
/// rung's word, it uses the widest that they are.
std::span<const Rung> rungs();

}  // namespace ec::kernels::cuda::ladder
