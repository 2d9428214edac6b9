// From a matrix over GF(2^8) to a schedule of XORs over bit planes, as plain data.
//
// A unit is 32 bytes of every chunk, at the same place in each. Its 32 bytes, as eight 32-bit words, are
// transposed in registers into eight bit planes: plane b holds bit b of all 32 bytes. A coefficient is then
// an 8 x 8 bit matrix, and every bit plane of a target is an XOR of bit planes of the sources. The schedule
// streams over the sources: a step takes the planes of two sources (the last step may have one), makes
// the sums that several targets share, and adds the terms of each target plane to its accumulator. The unit
// of cost is the 3-input XOR, which is one instruction (LOP3) of the chip. Two sources a step: targets that
// need one term of each pay once.
#pragma once

#include <cstdint>
#include <vector>

#include "gf/matrix.hpp"

namespace ec::kernels::cuda {

/// A register of a step: plane b of the step's i-th source is 8 i + b; sums follow; accumulators count from
/// accumulator_base, plane b of target t being accumulator_base + 8 t + b.
using Register = std::uint16_t;
inline constexpr Register accumulator_base = 0x4000;
inline constexpr Register no_register = 0xffff;

/// to = a ^ b ^ c, where b and c may be no_register (a move, a 2-input XOR).
struct Xor {
  Register to, a, b, c;
};

/// The work on the planes of the sources first .. first + count - 1.
struct Step {
  unsigned first = 0;
  unsigned count = 1;
  unsigned sums = 0;  ///< registers that hold sums, numbered from 8 * count
  std::vector<Xor> xors;
};

/// Straight-line program for one unit. Accumulators that no step writes are zero (a row of zeros).
struct Schedule {
  unsigned sources = 0;
  unsigned targets = 0;
  std::vector<Step> steps;
};

/// Deterministic: equal matrices give equal schedules.
Schedule make_schedule(const gf::Matrix& matrix);

}  // namespace ec::kernels::cuda
