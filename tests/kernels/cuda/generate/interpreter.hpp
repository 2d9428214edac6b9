// A schedule carried out by the CPU on real bytes: the proof that it is the matrix it came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/generate/schedule.hpp"

namespace ec::kernels::cuda {

/// What the kernel printed from `schedule` does, XOR by XOR, transpositions included: target = matrix .
/// source, or target ^= matrix . source. Host memory, `bytes` each, any alignment and length; targets overlap
/// nothing. Throws std::logic_error if the schedule reads a register that nothing has written, or one out of
/// range.
void interpret(const Schedule& schedule, std::span<const std::uint8_t* const> sources,
               std::span<std::uint8_t* const> targets, std::size_t bytes, bool accumulate = false);

/// Eight words of four bytes into eight bit planes, and back: the emitted transposition, instruction by
/// instruction.
void transpose(std::uint32_t words[8]);

}  // namespace ec::kernels::cuda
