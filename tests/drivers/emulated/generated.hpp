// Programs generated for a matrix: what the emulated NVRTC makes of their source, and the emulated driver of
// that. The source is read for what it says of itself (kernels/cuda/generate/emit.cpp), not run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ec::test::emulated {

struct Program {
  unsigned sources = 0, targets = 0, threads = 0;
  bool accumulate = false, batch = false;
  std::vector<std::uint8_t> coefficients;

  /// Of the kernel's one parameter: addresses, bytes, stripes, what is not used.
  std::size_t parameter_bytes() const { return 8 * (batch ? 1u : sources + targets) + 16 + 24; }
};

/// What stands for the machine code of a program; empty if the source is not one of ours.
std::string image_of(std::string_view source);

/// The program of an image; nothing if it is damaged or something else (a fat binary).
std::optional<Program> read_image(const void* image);

}  // namespace ec::test::emulated
