// The library that one of these stands in front of.
#pragma once

#include <dlfcn.h>

#include <boost/algorithm/string/split.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

namespace ec::test::faults {

/// Opens what the environment variable `variable` names (an absolute path); without it the first of `names`,
/// in order of preference, that lies in a directory of LD_LIBRARY_PATH or where drivers and compilers are
/// usually installed, and is not the file of this library, which has the address `self`. Null, with the
/// reason on stderr, if there is none.
inline void* open_next(const char* variable, std::initializer_list<const char*> names, const void* self) {
  namespace fs = std::filesystem;
  const auto open_file = [](const std::string& path) {
    // By its path: by its name the linker would give us ourselves.
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) std::fprintf(stderr, "EC_FAULTS: %s\n", dlerror());
    return handle;
  };
  if (const char* path = std::getenv(variable)) return open_file(path);
  Dl_info info{};
  dladdr(self, &info);
  const char* given = std::getenv("LD_LIBRARY_PATH");
  const std::string path = std::string(given == nullptr ? "" : given) +
                           ":/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:/usr/lib"
                           ":/usr/local/nvidia/lib64:/usr/local/cuda/lib64:/usr/local/cuda/compat";
  std::vector<std::string> directories;
  boost::split(directories, path, [](char c) { return c == ':'; });
  for (const fs::path directory : directories)
    for (const char* name : names) {
      std::error_code ignored;
      if (fs::exists(directory / name, ignored) && !fs::equivalent(directory / name, info.dli_fname, ignored))
        return open_file(directory / name);
    }
  std::fprintf(stderr, "EC_FAULTS: no %s behind this one in LD_LIBRARY_PATH or where drivers are; set %s\n",
               *names.begin(), variable);
  return nullptr;
}

}  // namespace ec::test::faults
