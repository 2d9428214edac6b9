// A schedule printed as CUDA C++. The form of the text was measured on an H200 (sm_90), driver
// 580.159.04, CUDA 13.0; device resident, cauchy, 1.5 GiB of chunks, median of 13 runs, noise under 0.5 %.
// Ratios are moved bytes to a device-to-device copy (4158 GB/s) of the same run:
//   4+2 1.033   6+3 1.036   8+3 1.046   8+4 1.034   10+4 1.039   12+4 1.042   16+4 1.034   20+4 1.036
//   32+8 0.987
// Other forms that were tried move less than 1 % more at these shapes, or lose:
//   sums of the low and high four planes, one source a step: 8+3 1.046, 10+4 1.044, 20+4 1.037; but one
//   stripe of 10+4, 16 KiB to 4 MiB chunks, at 0.92 to 0.96 of the speed (H100)
//   one source a step: 1.045, 1.033, 1.006
//   loads 0 / 2 / 3 steps ahead: 10+4 1.035 / 1.039 / 1.040; 20+4 1.034 / 1.039 / 1.033
//   threads 64 / 128 / 512: 10+4 1.043 / 1.042 / 0.939; 20+4 1.032 / 1.030 / 1.004
//   registers for 4 blocks: 10+4 1.039; 20+4 0.727 (64 registers: it spills)
//   cache hints of loads: 8+3 and 10+4 0.94 to 0.95; of stores, or both: as without
//   products for shifts: 10+4 1.042; 32+8 with warps in lockstep 0.973. lockstep: 10+4 1.035, 32+8 0.981
//   blocks a few waves of the chip instead of one warp a tile: 10+4 1.012 to 1.033
#include "kernels/cuda/generate/emit.hpp"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "kernels/cuda/generate/schedule.hpp"

namespace ec::kernels::cuda {
namespace {

class Emitter {
 public:
  Emitter(std::string_view name, const gf::Matrix& matrix) : name_(name), schedule_(make_schedule(matrix)) {}

  std::string text() {
    put("namespace ec::kernels::cuda {{\nstruct {} {{\ntemplate <class Stripes>\n", name_);
    put("static __device__ __forceinline__ void unit(const Stripes& p, const Tile& tile) {{\n");
    // Scalars: an array costs the compiler several times as long.
    for (unsigned i = 0; i < 8 * schedule_.targets; ++i) put("{}a{}=0", i == 0 ? "Word " : ",", i);
    put(";\n");
    // Loads run one step ahead of their use.
    load(0);
    for (unsigned s = 0; s < schedule_.steps.size(); ++s) {
      load(s + 1);
      step(schedule_.steps[s]);
    }
    for (unsigned t = 0; t < schedule_.targets; ++t) store(t);
    put("}}\n}};\nKERNELS({}, {}, {})\n}}\n", name_, schedule_.sources, schedule_.targets);
    return std::move(out_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  /// Loads the sources of step `s`, if there is one.
  void load(unsigned s) {
    if (s >= schedule_.steps.size()) return;
    const Step& step = schedule_.steps[s];
    for (unsigned i = step.first; i < step.first + step.count; ++i)
      put("uint4 x{0},y{0};LOAD(x{0},y{0},{0});\n", i);
  }

  void step(const Step& step) {
    put("{{");
    for (unsigned i = 0; i < step.count; ++i) {
      const unsigned b = 8 * i, x = step.first + i;
      put("Word r{}=x{}.x,r{}=x{}.y,r{}=x{}.z,r{}=x{}.w,", b, x, b + 1, x, b + 2, x, b + 3, x);
      put("r{}=y{}.x,r{}=y{}.y,r{}=y{}.z,r{}=y{}.w;\n", b + 4, x, b + 5, x, b + 6, x, b + 7, x);
      put("TRANSPOSE(r{},r{},r{},r{},r{},r{},r{},r{});\n", b, b + 1, b + 2, b + 3, b + 4, b + 5, b + 6,
          b + 7);
    }
    for (const Xor& x : step.xors) line(x);
    put("}}\n");
  }

  void line(const Xor& x) {
    const bool sum = x.to < accumulator_base;
    if (sum) put("Word {};", name(x.to));
    if (x.c != no_register)
      put("X3({},{},{},{});\n", name(x.to), name(x.a), name(x.b), name(x.c));
    else if (x.b != no_register)
      put("X2({},{},{});\n", name(x.to), name(x.a), name(x.b));
    else
      put("{}={};\n", name(x.to), name(x.a));
  }

  static std::string name(Register r) {
    return r >= accumulator_base ? fmt::format("a{}", r - accumulator_base) : fmt::format("r{}", r);
  }

  void store(unsigned t) {
    put("STORE({}", schedule_.sources + t);
    for (unsigned b = 0; b < 8; ++b) put(",a{}", 8 * t + b);
    put(");\n");
  }

  const std::string_view name_;
  const Schedule schedule_;
  std::string out_;
};

}  // namespace

std::string emit(std::string_view name, const gf::Matrix& matrix) { return Emitter(name, matrix).text(); }

}  // namespace ec::kernels::cuda
