// Which programs are worth generating and with what settings, as plain data with the measurements behind it.
#pragma once

#include <string>

#include "kernels/cuda/generate/emit.hpp"
#include "kernels/cuda/generate/schedule.hpp"

namespace ec::kernels::cuda {

/// Everything that turns a matrix into a program. `emit.accumulate` and `emit.batch` are the caller's to set.
struct ProgramOptions {
  ScheduleOptions schedule;
  EmitOptions emit;
};

/// The settings for k sources and m targets on sm_<chip>: those of the nearest older chip that was measured,
/// or of the oldest one. Pure; any k, m >= 1.
ProgramOptions pick_options(unsigned k, unsigned m, unsigned chip);

/// Whether a generated program beats the kernels for any matrix: where it was measured to, or the shape is
/// smaller than one that was. Pure.
bool worth_generating(unsigned k, unsigned m);

/// All options in words, different for different options: `settings` of program_key.
std::string describe(const ProgramOptions& options);

}  // namespace ec::kernels::cuda
