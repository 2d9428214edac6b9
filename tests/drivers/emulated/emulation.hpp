// What a launch of one of our kernels does, on the host: the same mapping of blocks to rows and words, so
// that a grid or a count that does not cover the result leaves it unwritten here too.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ec::test::emulated {

/// A kernel as cuModuleGetFunction finds it: tile kernels by the bytes of their word, table kernels by their
/// index in table_kernels, bit kernels by that in bit_kernels, generated ones by their matrix. Those of
/// programs beside the product are not known.
struct Kernel {
  enum class Kind { tile, table, bits, generated } kind = Kind::tile;
  unsigned size = 16;
  unsigned sources = 0, targets = 0;  ///< generated
  std::vector<std::uint8_t> coefficients{};
  bool batch = false;  ///< generated: for many stripes
};

/// Null if there is no kernel of that name.
const Kernel* find_kernel(const std::string& name);

/// Major and minor of the one chip there is, 9.9.
inline constexpr int compute_capability = 9;

struct Launch {
  const Kernel* kernel;
  unsigned grid_x, grid_y, block_x, block_y;
  unsigned shared_bytes;
  alignas(8) std::array<std::uint8_t, 4096> parameter;
  int ordinal = 0;  ///< of the device
};

/// Bytes of the one parameter of a kernel.
std::size_t parameter_bytes(const Kernel& kernel);

/// CUDA_SUCCESS, or what the device would have answered: an address that is not a multiple of what the kernel
/// loads, too little shared memory, an impossible launch.
CUresult check(const Launch& launch);
void run(const Launch& launch);

}  // namespace ec::test::emulated
