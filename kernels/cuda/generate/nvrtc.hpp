// NVRTC, opened at run time: nothing links it, and a machine without it only loses generated kernels. For the
// program that compiles (compile_program.cpp), for tests and measurements: no host's process opens it, since
// one that ends while it is opened or used crashes in it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ec::kernels::cuda {

// X(name, symbol, type): NVRTC's own names and C signatures; a program is a pointer, a result an enum in
// which 0 is success.
#define EC_NVRTC_FUNCTIONS(X)                                                                           \
  X(create, nvrtcCreateProgram,                                                                         \
    int (*)(void**, const char* source, const char* name, int headers, const char* const* header_texts, \
            const char* const* header_names))                                                           \
  X(compile, nvrtcCompileProgram, int (*)(void*, int options, const char* const* texts))                \
  X(destroy, nvrtcDestroyProgram, int (*)(void**))                                                      \
  X(log_size, nvrtcGetProgramLogSize, int (*)(void*, std::size_t*))                                     \
  X(log, nvrtcGetProgramLog, int (*)(void*, char*))                                                     \
  X(cubin_size, nvrtcGetCUBINSize, int (*)(void*, std::size_t*))                                        \
  X(cubin, nvrtcGetCUBIN, int (*)(void*, char*))                                                        \
  X(error, nvrtcGetErrorString, const char* (*)(int))

/// What a compilation gave. `cubin` is empty on failure, and `log` says why; on success `log` is the
/// compiler's report (with "-Xptxas -v": registers, spills).
struct Compiled {
  std::string cubin;
  std::string log;
  explicit operator bool() const { return !cubin.empty(); }
};

/// Empty if NVRTC is there, otherwise why not. Thread safe.
std::string nvrtc_missing();

/// Compiles CUDA C++ to machine code for sm_<chip> (75, 80, 90, ..). `options`: more options for NVRTC.
/// Thread safe; takes as long as the compiler does; throws std::bad_alloc alone.
Compiled compile(const std::string& source, unsigned chip, const std::vector<std::string>& options = {});

}  // namespace ec::kernels::cuda
