// NVRTC, opened at run time.
#include "kernels/cuda/generate/nvrtc.hpp"

#include <dlfcn.h>

#include <type_traits>

namespace ec::kernels::cuda {
namespace {

/// The library, if it is there.
struct Nvrtc {
#define EC_DECLARE(name, symbol, type) std::decay_t<type> name = nullptr;
  EC_NVRTC_FUNCTIONS(EC_DECLARE)
#undef EC_DECLARE
  std::string missing;

  Nvrtc() {
    static constexpr const char* names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                            "/usr/local/cuda/lib64/libnvrtc.so"};
    void* library = nullptr;
    for (const char* name : names)
      if ((library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
    if (library == nullptr) {
      missing = std::string("NVRTC not found: ") + dlerror();
      return;
    }
#define EC_RESOLVE(name, symbol, type)                              \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #symbol)); \
  if (name == nullptr && missing.empty()) missing = "NVRTC has no " #symbol;
    EC_NVRTC_FUNCTIONS(EC_RESOLVE)
#undef EC_RESOLVE
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
  void* program = nullptr;
  if (const int r = n.create(&program, source.c_str(), "program.cu", 0, nullptr, nullptr); r != 0)
    return {{}, n.error(r)};

  const std::string arch = "-arch=sm_" + std::to_string(chip);
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
    compiled.log.insert(0, std::string(n.error(result)) + '\n');
  } else if (n.cubin_size(program, &size) == 0 && size > 0) {
    compiled.cubin.resize(size);
    if (n.cubin(program, compiled.cubin.data()) != 0) compiled.cubin.clear();
  }
  n.destroy(&program);
  return compiled;
}

}  // namespace ec::kernels::cuda
