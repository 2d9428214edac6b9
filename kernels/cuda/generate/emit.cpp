#include "kernels/cuda/generate/emit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "kernels/cuda/generate/emit_text.hpp"

namespace ec::kernels::cuda {
namespace {

class Emitter {
 public:
  Emitter(const gf::Matrix& matrix, const Schedule& schedule, const EmitOptions& options)
      : matrix_(matrix), schedule_(schedule), options_(options) {}

  std::string text() {
    definitions();
    out_ += text::preamble;
    out_ += options_.batch ? text::batch_parameters : text::stripe_parameters;
    out_ += text::bytewise;
    kernel();
    return std::move(out_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void definitions() {
    static constexpr std::string_view loads[] = {"ld.global.nc", "ld.global.nc.L1::no_allocate",
                                                 "ld.global.cs", "ld.global.nc.L1::no_allocate.L2::256B"};
    static constexpr std::string_view stores[] = {"st.global", "st.global.cs", "st.global.L1::no_allocate"};
    put("#define K {}\n#define M {}\n#define THREADS {}\n", schedule_.sources, schedule_.targets,
        options_.threads);
    put("#define LOAD \"{}\"\n", loads[static_cast<unsigned>(options_.load)]);
    put("#define STORE \"{}\"\n", stores[static_cast<unsigned>(options_.store)]);
    put("#define MULTIPLY_LEFT {}\n", options_.transposition != Transposition::shifts ? 1 : 0);
    put("#define MULTIPLY_RIGHT {}\n", options_.transposition == Transposition::multiply_both ? 1 : 0);
    put("#define ACCUMULATE {}\n#define LOCKSTEP {}\n", options_.accumulate ? 1 : 0,
        options_.lockstep ? 1 : 0);
    put("#define COEFFICIENTS ");
    for (std::size_t i = 0; i < matrix_.cells().size(); ++i)
      put("{}{}", i == 0 ? "" : ",", matrix_.cells()[i]);
    out_ += '\n';
  }

  void kernel() {
    put("extern \"C\" __global__ void __launch_bounds__(THREADS{})\n{}(const __grid_constant__ Parameters p) "
        "{{\n",
        options_.min_blocks == 0 ? "" : fmt::format(", {}", options_.min_blocks), entry_point);
    out_ += text::tile_loop;
    // Scalars: an array of them costs the compiler several times as long.
    for (unsigned i = 0; i < 8 * schedule_.targets; ++i) put("{}a{}=0", i == 0 ? "u " : ",", i);
    put(";\n");
    for (unsigned s = 0; s < std::min<std::size_t>(options_.prefetch, schedule_.steps.size()); ++s) load(s);
    for (unsigned s = 0; s < schedule_.steps.size(); ++s) step(s);
    for (unsigned t = 0; t < schedule_.targets; ++t) store(t);
    out_ += text::end_of_kernel;
  }

  void load(unsigned s) {
    const Step& step = schedule_.steps[s];
    for (unsigned i = step.first; i < step.first + step.count; ++i)
      put("uint4 x{0},y{0};LD(x{0},y{0},SOURCE({0}));\n", i);
  }

  void step(unsigned s) {
    const Step& step = schedule_.steps[s];
    if (s + options_.prefetch < schedule_.steps.size()) load(s + options_.prefetch);
    if (options_.lockstep) put("__syncthreads();\n");
    put("{{");
    for (unsigned i = 0; i < step.count; ++i) {
      const unsigned b = 8 * i, x = step.first + i;
      put("u r{}=x{}.x,r{}=x{}.y,r{}=x{}.z,r{}=x{}.w,", b, x, b + 1, x, b + 2, x, b + 3, x);
      put("r{}=y{}.x,r{}=y{}.y,r{}=y{}.z,r{}=y{}.w;\n", b + 4, x, b + 5, x, b + 6, x, b + 7, x);
      put("T(r{},r{},r{},r{},r{},r{},r{},r{});\n", b, b + 1, b + 2, b + 3, b + 4, b + 5, b + 6, b + 7);
    }
    for (const Xor& x : step.xors) line(x);
    put("}}\n");
  }

  void line(const Xor& x) {
    const bool sum = x.to < accumulator_base;
    if (sum) put("u {};", name(x.to));
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
    put("ST({}", t);
    for (unsigned b = 0; b < 8; ++b) put(",a{}", 8 * t + b);
    put(");\n");
  }

  const gf::Matrix& matrix_;
  const Schedule& schedule_;
  const EmitOptions& options_;
  std::string out_;
};

}  // namespace

std::string emit(const gf::Matrix& matrix, const Schedule& schedule, const EmitOptions& options) {
  return Emitter(matrix, schedule, options).text();
}

}  // namespace ec::kernels::cuda
