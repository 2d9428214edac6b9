// From a matrix over GF(2^8) to a schedule of XORs over bit planes, as plain data.
//
// A unit is 32 bytes of every chunk, at the same place in each. Its 32 bytes, as eight 32-bit words, are
// transposed in registers into eight bit planes: plane b holds bit b of all 32 bytes. A coefficient is then
// an 8 x 8 bit matrix, and every bit plane of a target is an XOR of bit planes of the sources. The schedule
// streams over the sources: a step takes the planes of one or two sources, makes the sums of them that
// several targets share, and adds what each target plane needs to its accumulator. The unit of cost is the
// 3-input XOR, which is one instruction (LOP3) of the chip.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "gf/matrix.hpp"

namespace ec::kernels::cuda {

/// How the sums that several target planes share are chosen. Either way every target plane costs one 3-input
/// XOR per source (both of its terms at once), so what differs is the number of sums made on the way.
/// nibble_sums: the sums of the low and of the high four planes that some target needs (at most 22 a source).
/// covering: the fewest sums, found greedily, such that what each target plane needs is one of them or the
/// XOR
///   of two; 11 or so a source for 4 targets.
enum class Strategy : std::uint8_t { nibble_sums, covering };

constexpr std::string_view name(Strategy s) { return s == Strategy::covering ? "covering" : "nibble_sums"; }

/// A register of a step: plane b of the step's i-th source is 8 i + b; sums follow; accumulators count from
/// accumulator_base, plane b of target t being accumulator_base + 8 t + b.
using Register = std::uint16_t;
inline constexpr Register accumulator_base = 0x4000;
inline constexpr Register no_register = 0xffff;

/// to = a ^ b ^ c, where b and c may be no_register (a move, a 2-input XOR).
struct Xor {
  Register to, a, b, c;
  friend bool operator==(const Xor&, const Xor&) = default;
};

/// What is done with the planes of the sources first .. first + count - 1.
struct Step {
  unsigned first = 0;
  unsigned count = 1;
  unsigned sums = 0;  ///< registers that hold sums, numbered from 8 * count
  std::vector<Xor> xors;
};

struct ScheduleOptions {
  Strategy strategy = Strategy::covering;
  unsigned sources_per_step = 2;  ///< 1 or 2: two sources let targets that need one term of each pay once
};

/// Straight-line program for one unit. Accumulators that no step writes are zero (a row of zeros).
struct Schedule {
  unsigned sources = 0;
  unsigned targets = 0;
  std::vector<Step> steps;

  friend bool operator==(const Schedule& a, const Schedule& b);
};

/// Deterministic: equal matrices and options give equal schedules.
Schedule make_schedule(const gf::Matrix& matrix, const ScheduleOptions& options = {});

/// Arithmetic of a schedule, in instructions per unit.
struct ScheduleCost {
  unsigned xors = 0;
  unsigned transpositions = 0;  ///< of 48 instructions each: one per source and one per target
  unsigned live_registers = 0;  ///< accumulators + planes + sums of the widest step, + one prefetched source
  unsigned sources = 0;

  static constexpr unsigned transposition = 48;
  /// Instructions per byte of source.
  double per_source_byte() const { return (xors + transposition * transpositions) / (32.0 * sources); }
};

ScheduleCost cost(const Schedule& schedule);

/// The eight rows of the bit matrix of one coefficient: bit j of row i says whether bit j of the source byte
/// goes into bit i of the product.
void bit_matrix(std::uint8_t coefficient, std::uint8_t rows[8]);

}  // namespace ec::kernels::cuda
