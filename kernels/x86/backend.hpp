// Our own kernels for x86-64: GFNI or PSHUFB on 256 or 512 bits, picked by the features of the CPU.
#pragma once

#include <span>

#include "kernels/backend.hpp"
#include "kernels/x86/kernel.hpp"

namespace ec::kernels::x86 {

/// Takes every job in host memory of at most 255 sources and 255 targets, where the CPU has the instructions.
/// Status::fault when memory for a program's coefficients cannot be had, at its first use.
class X86 final : public Backend {
 public:
  X86(std::string_view name, Isa isa);

  std::string_view name() const noexcept override { return name_; }
  BackendKind kind() const noexcept override { return BackendKind::coder; }
  bool supports(const Job& job) const noexcept override;
  Status code(const Job& job, Verb verb) noexcept override { return run(job, verb, nullptr); }

  Isa isa() const noexcept { return isa_; }
  /// Whether this CPU, and the operating system, have the instructions.
  bool runs_here() const noexcept { return runs_here_; }
  /// code(). *ran, if there is one, becomes the instruction set as the kernel that ran names it; unchanged if
  /// none ran.
  Status run(const Job& job, Verb verb, Isa* ran) const noexcept;

 private:
  /// Whether jobs of this shape are taken.
  bool takes(const Job& job) const noexcept;

  std::string_view name_;
  Isa isa_;
  bool runs_here_;
};

/// Runs the kernel of this instruction set, which the CPU must have.
Isa call_kernel(Isa isa, const ProductCall& call) noexcept;

/// Runs the transform, for which this CPU must have GFNI and AVX-512, with room for its tiles: on the stack,
/// or elsewhere if they are too large for a fiber's stack, as at 128+32. Without memory tiles are shorter.
Isa call_transform(TransformCall call) noexcept;

/// "x86": the best instruction set of this CPU. Supports nothing if the CPU has none of them.
X86& backend() noexcept;

/// Each instruction set by itself: x86-gfni512, x86-gfni256, x86-avx512, x86-avx2. A set that this CPU lacks
/// supports nothing.
std::span<X86> variants() noexcept;

}  // namespace ec::kernels::x86
