// What a launch of one of our kernels does, on the host: the same mapping of blocks to rows and words, so
// that a grid or a count that does not cover the result leaves it unwritten here too.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/kernels/xor_args.hpp"
#include "tests/drivers/emulated/generated.hpp"

namespace ec::test::emulated {

/// What a rung of the ladder asks of its launch.
struct RungGeometry {
  unsigned rows;             ///< targets that a block computes, for each of its rows of threads
  unsigned block_x;          ///< what it must be launched with
  unsigned block_y;          ///< the same
  std::size_t shared_bytes;  ///< for each source that is staged
};

/// A kernel as cuModuleGetFunction finds it: tile kernels by the bytes of their word, table kernels by their
/// index in table_kernels, bit kernels by that in bit_shapes, rungs by what their addresses are multiples of.
/// sum: the XOR kernels, which take ec::bench::XorArgs and are only ever run by run_xor(). generated: of
/// `program`.
struct Kernel {
  enum class Kind { tile, table, bits, rung, sum, generated } kind;
  unsigned size;
  bool half = false;  ///< bits: the kernel for few targets
  RungGeometry rung{};
  const Program* program = nullptr;
};

/// Null if there is no kernel of that name.
const Kernel* find_kernel(const std::string& name);

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
void run_xor(const bench::XorArgs& args);

}  // namespace ec::test::emulated
