// A matrix as a CUDA C++ program for NVRTC: its schedule, printed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gf/matrix.hpp"

namespace ec::kernels::cuda {

/// What a program does: target = M . source for one stripe, target += M . source for one stripe, target = M .
/// source for many stripes.
enum class ProgramForm : std::uint8_t { transform, accumulate, batch };

/// Name of the one kernel of a program.
inline constexpr const char* entry_point = "ec_transform";

/// Threads of a block. A warp codes warp_tile bytes of a chunk at a time.
inline constexpr unsigned block_threads = 256;
inline constexpr unsigned warp_tile = 1024;
/// At the end of a kernel's parameter.
inline constexpr std::size_t unused_bytes = 24;

/// The program for sm_<chip>; equal arguments give equal text. Its kernel takes one parameter, a struct by
/// value, all members 8 bytes wide:
///   one stripe:    source[k], target[m] (addresses), bytes, zero
///   many stripes:  address of the table (stripe after stripe: k sources, m targets), bytes, stripes
/// followed by unused_bytes. Any number of blocks of block_threads threads does the whole job. Chunks are
/// `bytes` long, any number, and must be 16-byte aligned. Chunks under `warp_tile` and the last bytes % 16 go
/// bytewise: right, but slow.
std::string emit(const gf::Matrix& matrix, ProgramForm form, unsigned chip);

/// Whether a program for k sources and m targets beats the kernels for any matrix: where it was measured to,
/// or the shape is smaller than one that was.
constexpr bool worth_generating(unsigned k, unsigned m) {
  // H200, driver 580.159.04: up to 32+8 generated code reaches 0.99 to 1.05 of a device copy. Beyond,
  // straight-line code outgrows the instruction cache: 64+16 reached 0.300 of the copy, in two passes of 8
  // targets, where the tensor cores reached 0.770. The 8 m accumulators live in registers, 128 in all at 8.
  return m <= 8 && k * m <= 32 * 8;
}
inline bool worth_generating(const gf::Matrix& matrix) {
  return worth_generating(matrix.cols(), matrix.rows());
}

}  // namespace ec::kernels::cuda
