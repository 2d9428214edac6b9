// Finds and loads a plugin of Ceph's own as Ceph's loader would, under another name.
#include "plugin/ceph/stock.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <vector>

#include "plugin/ceph/host.hpp"
#include "plugin/ceph/profile_values.hpp"

namespace ec::ceph {
namespace {

using ::ceph::ErasureCodePlugin;
using ::ceph::ErasureCodePluginRegistry;

constexpr std::string_view suffix = " of Ceph's own";

/// Where packages put them: Debian's, those of RPM, and those of Ceph's project.
constexpr const char* packaged[] = {"/usr/lib/" EC_LIBRARY_ARCHITECTURE "/ceph/erasure-code",
                                    "/usr/lib64/ceph/erasure-code", "/usr/lib/ceph/erasure-code"};

// ErasureCodePluginRegistry::get(name): a member function takes the object first.
constexpr const char* get_symbol =
    "_ZN4ceph25ErasureCodePluginRegistry3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
using Get = ErasureCodePlugin* (*)(ErasureCodePluginRegistry*, const std::string&);

using Library = std::unique_ptr<void, int (*)(void*)>;

/// Null if there is no such file, or it is ours, which the name of a link may hide.
Library open(const std::string& file) {
  if (access(file.c_str(), F_OK) != 0) return {nullptr, dlclose};
  Library library(dlopen(file.c_str(), RTLD_NOW), dlclose);
  if (!library) refuse(EIO, "{}", dlerror());
  if (dlsym(library.get(), "__erasure_code_init") == reinterpret_cast<void*>(&__erasure_code_init))
    library.reset();
  return library;
}

template <class Function>
Function find_in(const Library& library, const char* symbol) {
  return reinterpret_cast<Function>(dlsym(library.get(), symbol));
}

/// Has the plugin register, and finds it in the registry.
ErasureCodePlugin* start(const Library& library, const std::string& file, std::string name) {
  const auto get = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, get_symbol));
  if (get == nullptr) refuse(ENOTSUP, "this host exports no ErasureCodePluginRegistry::get");
  const auto version = find_in<const char* (*)()>(library, "__erasure_code_version");
  const auto init = find_in<int (*)(char*, char*)>(library, "__erasure_code_init");
  if (version == nullptr || init == nullptr) refuse(EXDEV, "{} is no plugin of Ceph's", file);
  if (std::strcmp(version(), host_version()) != 0)
    refuse(EXDEV, "{} is for Ceph {}, and this host is of {}", file, version(), host_version());
  std::string directory = file.substr(0, file.rfind('/'));
  if (const int error = init(name.data(), directory.data()); error != 0)
    refuse(error < 0 ? -error : error, "{} does not start: {}", file,
           std::strerror(error < 0 ? -error : error));
  ErasureCodePlugin* plugin = get(&ErasureCodePluginRegistry::singleton, name);
  if (plugin == nullptr) refuse(EBADF, "{} has registered nothing", file);
  return plugin;
}

}  // namespace

Stock load_stock(std::string_view name, const std::string& directory) {
  std::vector<std::string> places(std::begin(packaged), std::end(packaged));
  if (!directory.empty()) places = {directory};
  for (const std::string& place : places) {
    const std::string file = fmt::format("{}/libec_{}.so", place, name);
    Library library = open(file);
    if (!library) continue;
    ErasureCodePlugin* plugin = start(library, file, stock_name(name));
    // As the loader does: the registry closes it at its end.
    plugin->library = library.release();
    return {plugin, file};
  }
  refuse(
      ENOENT,
      "Ceph's own libec_{}.so, which codes what this plugin does not, is not in {}; EC_CUDA_STOCK_DIRECTORY "
      "says where it is",
      name, fmt::join(places, ", "));
}

std::string stock_name(std::string_view name) { return std::string(name).append(suffix); }

bool is_stock_name(std::string_view name) noexcept { return name.ends_with(suffix); }

}  // namespace ec::ceph
