// NVRTC, opened at run time: nothing links it, and a machine without it only loses generated kernels.
#pragma once

#include <string>
#include <vector>

namespace ec::kernels::cuda {

/// What a compilation gave. `cubin` is empty on failure, and `log` says why; on success `log` is the
/// compiler's report (with "-Xptxas -v": registers, spills).
struct Compiled {
  std::vector<char> cubin;
  std::string log;
  explicit operator bool() const { return !cubin.empty(); }
};

/// Empty if NVRTC is there, otherwise why not. Thread safe.
std::string nvrtc_missing();

/// Compiles CUDA C++ to machine code for sm_<chip> (75, 80, 90, ..). `options`: more options for NVRTC.
/// Thread safe; takes as long as the compiler does; never throws for what the compiler says.
Compiled compile(const std::string& source, unsigned chip, const std::vector<std::string>& options = {});

}  // namespace ec::kernels::cuda
