#include "tests/kernels/cuda/generate/interpreter.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

namespace ec::kernels::cuda {
namespace {

constexpr std::size_t unit = 32;

/// The registers of one thread. A register holds nothing until it is written.
class Registers {
 public:
  explicit Registers(const Schedule& schedule) : accumulators_(8 * std::size_t{schedule.targets}, 0u) {}

  void begin(const Step& step) { values_.assign(8 * std::size_t{step.count} + step.sums, std::nullopt); }
  void set(Register r, std::uint32_t value) {
    if (r >= accumulator_base)
      accumulators_.at(r - accumulator_base) = value;
    else
      values_.at(r) = value;
  }
  std::uint32_t get(Register r) const {
    if (r == no_register) return 0;
    if (r >= accumulator_base) return accumulators_.at(r - accumulator_base);
    if (!values_.at(r)) throw std::logic_error("the schedule reads a register before it is written");
    return *values_[r];
  }

 private:
  std::vector<std::optional<std::uint32_t>> values_;
  std::vector<std::uint32_t> accumulators_;
};

void swap_fields(std::uint32_t& a, std::uint32_t& b, unsigned shift, std::uint32_t mask) {
  const std::uint32_t left = b << shift, right = a >> shift;
  a = (mask & a) | (~mask & left);
  b = (mask & right) | (~mask & b);
}

void run(const Schedule& schedule, Registers& registers, std::span<const std::uint8_t* const> sources,
         std::size_t at, std::size_t count) {
  for (const Step& step : schedule.steps) {
    registers.begin(step);
    for (unsigned i = 0; i < step.count; ++i) {
      std::uint32_t words[8] = {};
      std::memcpy(words, sources[step.first + i] + at, count);
      transpose(words);
      for (unsigned b = 0; b < 8; ++b) registers.set(static_cast<Register>(8 * i + b), words[b]);
    }
    for (const Xor& x : step.xors)
      registers.set(x.to, registers.get(x.a) ^ registers.get(x.b) ^ registers.get(x.c));
  }
}

}  // namespace

void transpose(std::uint32_t w[8]) {
  for (unsigned i : {0, 1, 2, 3}) swap_fields(w[i], w[i + 4], 4, 0x0f0f0f0f);
  for (unsigned i : {0, 1, 4, 5}) swap_fields(w[i], w[i + 2], 2, 0x33333333);
  for (unsigned i : {0, 2, 4, 6}) swap_fields(w[i], w[i + 1], 1, 0x55555555);
}

void interpret(const Schedule& schedule, std::span<const std::uint8_t* const> sources,
               std::span<std::uint8_t* const> targets, std::size_t bytes, bool accumulate) {
  for (std::size_t at = 0; at < bytes; at += unit) {
    const std::size_t count = std::min(unit, bytes - at);
    Registers registers(schedule);
    run(schedule, registers, sources, at, count);
    for (unsigned t = 0; t < schedule.targets; ++t) {
      std::uint32_t words[8];
      for (unsigned b = 0; b < 8; ++b)
        words[b] = registers.get(static_cast<Register>(accumulator_base + 8 * t + b));
      transpose(words);
      std::uint8_t result[unit];
      std::memcpy(result, words, unit);
      for (std::size_t i = 0; i < count; ++i)
        targets[t][at + i] = static_cast<std::uint8_t>(result[i] ^ (accumulate ? targets[t][at + i] : 0));
    }
  }
}

}  // namespace ec::kernels::cuda
