// The least job there is.
#pragma once

#include <cstdint>

#include "kernels/backend.hpp"
#include "kernels/program.hpp"

namespace ec::test {

/// A job of one byte there and one back, as if in pinned memory.
struct OneByte {
  std::uint8_t in = 1, out = 0;
  kernels::Program program{gf::Matrix(1, 1)};
  kernels::Source source{&in, kernels::Residence::pinned};
  kernels::Target target{&out, kernels::Residence::pinned};
  kernels::Job job{&program, {&source, 1}, {&target, 1}, 1};
};

}  // namespace ec::test
