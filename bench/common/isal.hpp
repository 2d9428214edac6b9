// Builds of Intel ISA-L: the one at work, and further ones by --isal.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "bench/common/options.hpp"

namespace ec::bench {

inline constexpr const char* function_of_isal = "ec_encode_data";

/// Opens the file of --isal. Throws UsageError if it is no ISA-L.
inline void* open_isal(const std::string& file, int flags) {
  if (!std::filesystem::is_regular_file(file) || access(file.c_str(), R_OK) != 0)
    throw UsageError(fmt::format("--isal {}: must be a libisal.so that can be read", file));
  // dlopen() looks for a name without a slash in the folders of the system alone.
  void* const library = dlopen(std::filesystem::absolute(file).c_str(), RTLD_NOW | flags);
  if (library == nullptr) throw UsageError(fmt::format("--isal {}: {}", file, dlerror()));
  if (dlsym(library, function_of_isal) == nullptr)
    throw UsageError(fmt::format("--isal {}: must be an ISA-L", file));
  return library;
}

/// Of the header of a report: the file that holds this function of an ISA-L, by default that of the back end
/// `isal`; without a function no line.
inline std::pair<std::string, std::string> isal_line(
    const void* function = dlsym(dlopen("libisal.so.2", RTLD_NOW | RTLD_NOLOAD), function_of_isal)) {
  Dl_info info{};
  if (dladdr(function, &info) == 0) return {};
  return {"isal", std::filesystem::canonical(info.dli_fname)};
}

}  // namespace ec::bench
