#include "kernels/cuda/generate/nvrtc.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace ec::kernels::cuda {
namespace {

/// The few calls used, with NVRTC's own names and C signatures (its results are an enum, 0 is success).
struct Nvrtc {
  using Program = void*;
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const* header_texts,
                const char* const* header_names) = nullptr;
  int (*compile)(Program, int options, const char* const* texts) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, std::size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  const char* (*error)(int) = nullptr;
  std::string missing;

  Nvrtc() {
    static constexpr const char* names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                            "/usr/local/cuda/lib64/libnvrtc.so"};
    void* library = nullptr;
    for (const char* name : names)
      if ((library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
    if (library == nullptr) {
      missing = fmt::format("NVRTC not found: {}", dlerror());
      return;
    }
    find(library, "nvrtcCreateProgram", create);
    find(library, "nvrtcCompileProgram", compile);
    find(library, "nvrtcDestroyProgram", destroy);
    find(library, "nvrtcGetProgramLogSize", log_size);
    find(library, "nvrtcGetProgramLog", log);
    find(library, "nvrtcGetCUBINSize", cubin_size);
    find(library, "nvrtcGetCUBIN", cubin);
    find(library, "nvrtcGetErrorString", error);
  }

  template <class Function>
  void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr && missing.empty()) missing = fmt::format("NVRTC has no {}", name);
  }
};

/// Never unloaded: its threads and tables may outlive any moment we could choose.
const Nvrtc& nvrtc() {
  static const Nvrtc* const library = new Nvrtc;
  return *library;
}

}  // namespace

std::string nvrtc_missing() { return nvrtc().missing; }

Compiled compile(const std::string& source, unsigned chip, const std::vector<std::string>& options) {
  const Nvrtc& n = nvrtc();
  if (!n.missing.empty()) return {{}, n.missing};
  Nvrtc::Program program = nullptr;
  if (const int r = n.create(&program, source.c_str(), "program.cu", 0, nullptr, nullptr); r != 0)
    return {{}, n.error(r)};

  const std::string arch = fmt::format("-arch=sm_{}", chip);
  std::vector<const char*> arguments{arch.c_str(), "-std=c++17"};
  for (const std::string& o : options) arguments.push_back(o.c_str());
  const int result = n.compile(program, static_cast<int>(arguments.size()), arguments.data());

  Compiled compiled;
  std::size_t size = 0;
  if (n.log_size(program, &size) == 0 && size > 1) {
    compiled.log.resize(size);
    if (n.log(program, compiled.log.data()) != 0) compiled.log.clear();
    while (!compiled.log.empty() && compiled.log.back() == '\0') compiled.log.pop_back();
  }
  if (result != 0) {
    compiled.log.insert(0, fmt::format("{}\n", n.error(result)));
  } else if (n.cubin_size(program, &size) == 0 && size > 0) {
    compiled.cubin.resize(size);
    if (n.cubin(program, compiled.cubin.data()) != 0) compiled.cubin.clear();
  }
  n.destroy(&program);
  return compiled;
}

}  // namespace ec::kernels::cuda
