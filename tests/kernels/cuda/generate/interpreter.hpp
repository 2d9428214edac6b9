// A schedule carried out by the CPU on real bytes: the proof that it is the matrix it came from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/cuda/generate/schedule.hpp"

namespace ec::kernels::cuda {

/// Eight words of four bytes into eight bit planes, and back: the emitted transposition, instruction by
/// instruction.
inline void transpose(std::uint32_t w[8]) {
  const auto swap_fields = [&](unsigned a, unsigned b, unsigned shift, std::uint32_t mask) {
    const std::uint32_t left = w[b] << shift, right = w[a] >> shift;
    w[a] = (mask & w[a]) | (~mask & left);
    w[b] = (mask & right) | (~mask & w[b]);
  };
  for (unsigned i : {0, 1, 2, 3}) swap_fields(i, i + 4, 4, 0x0f0f0f0f);
  for (unsigned i : {0, 1, 4, 5}) swap_fields(i, i + 2, 2, 0x33333333);
  for (unsigned i : {0, 2, 4, 6}) swap_fields(i, i + 1, 1, 0x55555555);
}

/// What the kernel printed from `schedule` does, XOR by XOR, transpositions included: target = matrix .
/// source, or target ^= matrix . source. Host memory, `bytes` each, any alignment and length; targets overlap
/// nothing. Throws std::logic_error if the schedule reads a register that nothing has written, or one out of
/// range.
inline void interpret(const Schedule& schedule, std::span<const std::uint8_t* const> sources,
                      std::span<std::uint8_t* const> targets, std::size_t bytes, bool accumulate = false) {
  constexpr std::size_t unit = 32;
  for (std::size_t at = 0; at < bytes; at += unit) {
    const std::size_t count = std::min(unit, bytes - at);
    // Registers of a step hold nothing until they are written.
    std::vector<std::optional<std::uint32_t>> values;
    std::vector<std::uint32_t> accumulators(8 * std::size_t{schedule.targets}, 0u);
    const auto get = [&](Register r) -> std::uint32_t {
      if (r == no_register) return 0;
      if (r >= accumulator_base) return accumulators.at(r - accumulator_base);
      if (!values.at(r)) throw std::logic_error("the schedule reads a register before it is written");
      return *values[r];
    };
    for (const Step& step : schedule.steps) {
      values.assign(8 * std::size_t{step.count} + step.sums, std::nullopt);
      for (unsigned i = 0; i < step.count; ++i) {
        std::uint32_t words[8] = {};
        std::memcpy(words, sources[step.first + i] + at, count);
        transpose(words);
        std::copy_n(words, 8, values.begin() + 8 * i);
      }
      for (const Xor& x : step.xors) {
        const std::uint32_t sum = get(x.a) ^ get(x.b) ^ get(x.c);
        if (x.to >= accumulator_base)
          accumulators.at(x.to - accumulator_base) = sum;
        else
          values.at(x.to) = sum;
      }
    }
    for (unsigned t = 0; t < schedule.targets; ++t) {
      std::uint32_t words[8];
      std::copy_n(accumulators.begin() + 8 * t, 8, words);
      transpose(words);
      std::uint8_t result[unit];
      std::memcpy(result, words, unit);
      for (std::size_t i = 0; i < count; ++i)
        targets[t][at + i] = static_cast<std::uint8_t>(result[i] ^ (accumulate ? targets[t][at + i] : 0));
    }
  }
}

}  // namespace ec::kernels::cuda
