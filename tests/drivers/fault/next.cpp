// Looks for the library behind by its path.
#include "tests/drivers/fault/next.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

namespace ec::test::faults {
namespace {

std::vector<std::string> directories() {
  std::vector<std::string> list;
  if (const char* path = std::getenv("LD_LIBRARY_PATH")) {
    std::istringstream parts(path);
    for (std::string part; std::getline(parts, part, ':');)
      if (!part.empty()) list.push_back(part);
  }
  for (const char* usual : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                            "/usr/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
                            "/usr/local/cuda/lib64", "/usr/local/cuda/compat", "/usr/lib/wsl/lib"})
    list.emplace_back(usual);
  return list;
}

bool is_this_library(const std::string& path) {
  Dl_info self{};
  std::error_code ignored;
  return dladdr(reinterpret_cast<const void*>(&open_next), &self) != 0 &&
         std::filesystem::equivalent(path, self.dli_fname, ignored);
}

void* open_said(const std::string& path) {
  // By its path: by its name the linker would give us ourselves.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) std::fprintf(stderr, "EC_FAULTS: %s\n", dlerror());
  return handle;
}

}  // namespace

void* open_next(const char* variable, std::initializer_list<const char*> names) {
  if (const char* path = std::getenv(variable)) return open_said(path);
  for (const std::string& directory : directories())
    for (const char* name : names) {
      const std::string path = directory + "/" + name;
      std::error_code ignored;
      if (std::filesystem::exists(path, ignored) && !is_this_library(path)) return open_said(path);
    }
  std::fprintf(stderr, "EC_FAULTS: no %s behind this one in LD_LIBRARY_PATH or where drivers are; set %s\n",
               *names.begin(), variable);
  return nullptr;
}

}  // namespace ec::test::faults
