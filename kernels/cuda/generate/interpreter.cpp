#include "kernels/cuda/generate/interpreter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace ec::kernels::cuda {
namespace {

constexpr std::size_t unit = 32;
using Planes = std::array<std::uint32_t, 8>;

/// Word w, byte i, bit b of the unit to plane b, bit 8 i + w; its own inverse.
Planes transpose(const Planes& words) {
  Planes planes{};
  for (unsigned w = 0; w < 8; ++w)
    for (unsigned i = 0; i < 4; ++i)
      for (unsigned b = 0; b < 8; ++b) planes[b] |= (words[w] >> (8 * i + b) & 1) << (8 * i + w);
  return planes;
}

/// `count` bytes, at most a unit, as little-endian words.
Planes words_of(const std::uint8_t* from, std::size_t count) {
  Planes words{};
  for (std::size_t i = 0; i < count; ++i) words[i / 4] |= std::uint32_t{from[i]} << 8 * (i % 4);
  return words;
}

/// Registers of one unit: accumulators for the whole schedule, planes and sums for a step.
class Machine {
 public:
  explicit Machine(unsigned targets) : accumulators_(8 * std::size_t{targets}) {}

  void begin(const Step& step) { step_.assign(8 * std::size_t{step.count} + step.sums, 0); }
  void load(unsigned index, const Planes& planes) { std::ranges::copy(planes, step_.begin() + 8 * index); }
  void run(const Xor& x) { at(x.to) = value(x.a) ^ value(x.b) ^ value(x.c); }
  Planes target(unsigned t) const {
    Planes planes;
    std::copy_n(accumulators_.begin() + 8 * t, 8, planes.begin());
    return planes;
  }

 private:
  std::uint32_t& at(Register r) {
    return r >= accumulator_base ? accumulators_[r - accumulator_base] : step_[r];
  }
  std::uint32_t value(Register r) { return r == no_register ? 0 : at(r); }

  std::vector<std::uint32_t> accumulators_;
  std::vector<std::uint32_t> step_;
};

/// What is wrong with one step, or empty.
std::string step_error(const Step& step, unsigned targets) {
  const unsigned planes = 8 * step.count;
  std::vector<bool> written(planes + step.sums);
  std::fill_n(written.begin(), planes, true);
  const auto readable = [&](Register r) {
    if (r == no_register) return true;
    if (r >= accumulator_base) return unsigned{r} - accumulator_base < 8 * targets;
    return r < written.size() && written[r];
  };
  for (const Xor& x : step.xors) {
    if (x.a == no_register || !readable(x.a) || !readable(x.b) || !readable(x.c))
      return fmt::format("register {} is made of a register that holds nothing", x.to);
    if (x.b == no_register && x.c != no_register) return "a third operand without a second";
    if (x.to >= accumulator_base) {
      if (unsigned{x.to} - accumulator_base >= 8 * targets) return fmt::format("no accumulator {}", x.to);
    } else if (x.to >= written.size() || written[x.to]) {
      return fmt::format("register {} does not exist or is written twice", x.to);
    } else {
      written[x.to] = true;
    }
  }
  return {};
}

}  // namespace

std::string schedule_error(const Schedule& schedule) {
  unsigned next = 0;
  for (const Step& step : schedule.steps) {
    if (step.first != next || step.count == 0 || step.count > schedule.sources - next)
      return fmt::format("a step takes sources from {}, expected {}", step.first, next);
    next += step.count;
    if (std::string error = step_error(step, schedule.targets); !error.empty())
      return fmt::format("step from source {}: {}", step.first, error);
  }
  return next == schedule.sources ? std::string() : fmt::format("sources from {} on are not taken", next);
}

void interpret(const Schedule& schedule, std::span<const std::uint8_t* const> sources,
               std::span<std::uint8_t* const> targets, std::size_t bytes, bool accumulate) {
  for (std::size_t at = 0; at < bytes; at += unit) {
    const std::size_t count = std::min(unit, bytes - at);
    Machine machine(schedule.targets);
    for (const Step& step : schedule.steps) {
      machine.begin(step);
      for (unsigned i = 0; i < step.count; ++i)
        machine.load(i, transpose(words_of(sources[step.first + i] + at, count)));
      for (const Xor& x : step.xors) machine.run(x);
    }
    for (unsigned t = 0; t < schedule.targets; ++t) {
      const Planes words = transpose(machine.target(t));
      for (std::size_t i = 0; i < count; ++i) {
        const auto made = static_cast<std::uint8_t>(words[i / 4] >> 8 * (i % 4));
        std::uint8_t& to = targets[t][at + i];
        to = accumulate ? to ^ made : made;
      }
    }
  }
}

}  // namespace ec::kernels::cuda
