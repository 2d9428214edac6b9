// The text of generated kernels. That a kernel does what its schedule says is proven on a GPU
// (generated_test): inline PTX runs nowhere else.
#include "kernels/cuda/generate/emit.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "gf/generator.hpp"

namespace ec::kernels::cuda {
namespace {

std::string text(unsigned k, unsigned m) {
  return emit("code", gf::coding_matrix(gf::Technique::cauchy, k, m));
}

TEST(Emit, IsTheTextThatWasMeasured) {
  // FNV-1a: another text is another kernel, to be measured anew.
  std::uint64_t all = 0xcbf29ce484222325;
  for (const auto& [k, m] : {std::pair{1u, 1u}, {4u, 2u}, {8u, 3u}, {10u, 4u}, {20u, 4u}, {32u, 8u}})
    for (const char c : text(k, m)) all = (all ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  EXPECT_EQ(all, 3011058015426290443u);
  EXPECT_NE(text(10, 4), text(10, 3));
}

}  // namespace
}  // namespace ec::kernels::cuda
