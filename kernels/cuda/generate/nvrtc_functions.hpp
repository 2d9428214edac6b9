// The functions of NVRTC that are used: one table through which every call goes.
#pragma once

#include <cstddef>

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
  X(error, nvrtcGetErrorString, const char* (*)(int))                                                   \
  X(version, nvrtcVersion, int (*)(int* major, int* minor))

}  // namespace ec::kernels::cuda
