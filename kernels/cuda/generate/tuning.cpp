#include "kernels/cuda/generate/tuning.hpp"

#include <fmt/format.h>

namespace ec::kernels::cuda {
namespace {

/// One choice, for sm_<chip> and newer, for shapes of at most max_sources and max_targets.
struct Entry {
  unsigned chip, max_sources, max_targets;
  ProgramOptions options;
};

constexpr ProgramOptions covering_two{{Strategy::covering, 2},
                                      {.threads = 256, .min_blocks = 0, .prefetch = 1}};

constexpr ProgramOptions covering_two_blocks{{Strategy::covering, 2},
                                             {.threads = 256, .min_blocks = 2, .prefetch = 1}};

// H200 (sm_90), driver 580.159.04, NVRTC 13.0; device resident, cauchy, 1.5 GiB of chunks, median of 13 runs,
// noise under 0.5 %. Ratios are moved bytes to a device-to-device copy (4158 GB/s) of the same run:
//   4+2 1.033   6+3 1.036   8+3 1.046   8+4 1.034   10+4 1.039   12+4 1.042   16+4 1.034   20+4 1.036
//   32+8 0.987
// What else was tried moves less than 1 % at these shapes, or loses:
//   nibble_sums, one source a step: 8+3 1.046, 10+4 1.044, 20+4 1.037
//   covering, one source a step: 1.045, 1.033, 1.006
//   prefetch 0 / 2 / 3: 10+4 1.035 / 1.039 / 1.040; 20+4 1.034 / 1.039 / 1.033
//   threads 64 / 128 / 512: 10+4 1.043 / 1.042 / 0.939; 20+4 1.032 / 1.030 / 1.004
//   min_blocks 4: 10+4 1.039; 20+4 0.727 (64 registers: it spills)
//   load hints alone: 8+3 and 10+4 0.94 to 0.95; store hints, or both: as without
//   products for shifts: 10+4 1.042; 32+8 with lockstep 0.973. lockstep: 10+4 1.035, 32+8 0.981
//   blocks a few waves of the chip instead of one warp a tile: 10+4 1.012 to 1.033
//
// sm_75 is not measured. Left to itself the compiler fits 8+4 into 64 registers there and spills 16 bytes;
// told that two blocks are enough it takes 90, and none up to 32+8 spills (NVRTC 13.0's report).
constexpr Entry table[] = {{75, 32, 8, covering_two_blocks}, {80, 32, 8, covering_two}};

/// The largest product of sources and targets measured at the memory limit (32+8). Beyond, straight-line code
/// outgrows the instruction cache: 64+16 reached 0.300 of the copy, in two passes of 8 targets, where the
/// tensor-core kernel reached 0.770.
constexpr unsigned max_product = 32 * 8;
/// Targets of a pass: 8 m accumulators live in registers, 128 registers in all at m = 8.
constexpr unsigned max_targets = 8;

bool covers(const Entry& entry, unsigned k, unsigned m) {
  return k <= entry.max_sources && m <= entry.max_targets;
}

}  // namespace

ProgramOptions pick_options(unsigned k, unsigned m, unsigned chip) {
  const Entry* best = &table[0];
  for (const Entry& entry : table)
    if (entry.chip <= chip && covers(entry, k, m) && (entry.chip > best->chip || !covers(*best, k, m)))
      best = &entry;
  return best->options;
}

bool worth_generating(unsigned k, unsigned m) { return m <= max_targets && k * m <= max_product; }

std::string describe(const ProgramOptions& options) {
  const EmitOptions& e = options.emit;
  return fmt::format("{} step{} {} {} threads{} min{} prefetch{}{} transposition{} load{} store{}",
                     name(options.schedule.strategy), options.schedule.sources_per_step,
                     e.accumulate ? "accumulate" : "transform", e.batch ? "batch" : "stripe", e.threads,
                     e.min_blocks, e.prefetch, e.lockstep ? " lockstep" : "",
                     static_cast<unsigned>(e.transposition), static_cast<unsigned>(e.load),
                     static_cast<unsigned>(e.store));
}

}  // namespace ec::kernels::cuda
