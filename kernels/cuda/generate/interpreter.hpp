// Runs schedules on the CPU: the proof, where there is no GPU, that a schedule computes its matrix.
// It shares with the emitter only the meaning of a schedule, written down in schedule.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/cuda/generate/schedule.hpp"

namespace ec::kernels::cuda {

/// Empty if the schedule is well formed, otherwise what is wrong with it: the steps take every source once
/// and in order, sums are written once and before they are read, and every register exists.
std::string schedule_error(const Schedule& schedule);

/// target = schedule(source), or target ^= schedule(source) if `accumulate`, by the definition and slowly.
/// The schedule must be well formed; sources.size() and targets.size() must be its own. Chunks are `bytes`
/// long, any number, any alignment; the last unit is filled up with zeros. Targets overlap nothing.
void interpret(const Schedule& schedule, std::span<const std::uint8_t* const> sources,
               std::span<std::uint8_t* const> targets, std::size_t bytes, bool accumulate = false);

}  // namespace ec::kernels::cuda
