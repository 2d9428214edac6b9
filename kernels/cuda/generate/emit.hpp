// A schedule printed as a CUDA C++ program for NVRTC.
#pragma once

#include <cstdint>
#include <string>

#include "gf/matrix.hpp"
#include "kernels/cuda/generate/schedule.hpp"

namespace ec::kernels::cuda {

/// How the shifts of the bit transposition are done. Bit logic and shifts share one pipe of the chip;
/// products run on another. shifts: as they are. multiply_left: left shifts as products by a multiplier that
/// the compiler cannot see through. multiply_both: right shifts too, as the upper half of a product.
enum class Transposition : std::uint8_t { shifts, multiply_left, multiply_both };

/// Cache hints of loads and stores, as the PTX they become.
enum class LoadHint : std::uint8_t { none, no_allocate, streaming, no_allocate_256 };
enum class StoreHint : std::uint8_t { none, streaming, no_allocate };

/// What a program does: target = M . source for one stripe, target += M . source for one stripe, target = M .
/// source for many stripes.
enum class ProgramForm : std::uint8_t { transform, accumulate, batch };
inline constexpr unsigned program_forms = 3;

/// Everything about the program that is not the matrix. Equal options and schedules give equal text.
struct EmitOptions {
  bool accumulate = false;  ///< target ^= matrix . source instead of target = matrix . source
  /// One launch for many stripes: chunk addresses come from a table in device memory.
  bool batch = false;
  unsigned threads = 256;  ///< a block; a multiple of 32
  unsigned min_blocks =
      0;  ///< resident blocks a multiprocessor the compiler must leave registers for; 0: its own choice
  unsigned prefetch = 1;  ///< steps that loads run ahead of their use
  /// The warps of a block take each step together, so that straight-line code too long for the instruction
  /// cache is fetched once a block and not once a warp.
  bool lockstep = false;
  Transposition transposition = Transposition::shifts;
  LoadHint load = LoadHint::none;
  StoreHint store = StoreHint::none;
};

/// Name of the one kernel of a program.
inline constexpr const char* entry_point = "ec_transform";

/// Bytes of a chunk that one warp codes at a time.
inline constexpr unsigned warp_tile = 1024;

/// The program. Its kernel takes one parameter, a struct by value, all members 8 bytes wide:
///   batch = false:  source[k], target[m] (addresses), bytes, zero
///   batch = true:   address of the table (stripe after stripe: k sources, m targets), bytes, stripes
/// followed by the multipliers below. Any number of blocks of `threads` threads does the whole job.
/// Chunks are `bytes` long, any number, and must be 16-byte aligned. Chunks under `warp_tile` and the last
/// bytes % 16 go bytewise: right, but slow.
std::string emit(const gf::Matrix& matrix, const Schedule& schedule, const EmitOptions& options = {});

/// What the member `multipliers` must hold: 2^4, 2^2, 2^1 and 2^28, 2^30, 2^31, 32 bits each.
inline constexpr std::uint32_t multipliers[6] = {16, 4, 2, 1u << 28, 1u << 30, 1u << 31};

}  // namespace ec::kernels::cuda
