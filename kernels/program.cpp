// What is known of a matrix before any back end has it.
#include "kernels/program.hpp"

#include <algorithm>

namespace ec::kernels {

Program::Program(gf::Matrix matrix, bool compiled)
    : matrix_(std::move(matrix)),
      is_xor_(std::ranges::all_of(matrix_.cells(), [](auto c) { return c == 1; })),
      compiled_(compiled) {}

Program::~Program() {
  for (auto& place : expansions_) delete place.load(std::memory_order_acquire);
}

}  // namespace ec::kernels
