// Finds and loads a plugin of Ceph's own as Ceph's loader would, under another name.
#include "plugin/ceph/stock.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <vector>

#include "plugin/ceph/host.hpp"

namespace ec::ceph {
namespace {

using ::ceph::ErasureCodePlugin;
using ::ceph::ErasureCodePluginRegistry;

constexpr std::string_view suffix = " of Ceph's own";

/// Where packages put Ceph's plugins: Debian's, RPM packages, and packages of Ceph's project.
constexpr const char* packaged[] = {"/usr/lib/" EC_LIBRARY_ARCHITECTURE "/ceph/erasure-code",
                                    "/usr/lib64/ceph/erasure-code", "/usr/lib/ceph/erasure-code"};

// ErasureCodePluginRegistry::get(name): a member function takes the object first.
constexpr const char* get_symbol =
    "_ZN4ceph25ErasureCodePluginRegistry3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
using Get = ErasureCodePlugin* (*)(ErasureCodePluginRegistry*, const std::string&);

using Library = std::unique_ptr<void, int (*)(void*)>;

/// Null if there is no such file, or if the file is ours: a link, or a copy, of this version or another.
Library open(const std::string& file) {
  if (access(file.c_str(), F_OK) != 0) return {nullptr, dlclose};
  Library library(dlopen(file.c_str(), RTLD_NOW), dlclose);
  if (!library) refuse(EIO, "{}", dlerror());
  if (dlsym(library.get(), "ec_cuda_version") != nullptr) library.reset();
  return library;
}

template <class Function>
Function find_in(const Library& library, const char* symbol) {
  return reinterpret_cast<Function>(dlsym(library.get(), symbol));
}

/// Where to look: beside the name by which we were loaded, and beside our file; then in packages' folders.
std::vector<std::string> places() {
  std::vector<std::string> all;
  Dl_info ours{};
  if (dladdr(reinterpret_cast<void*>(&__erasure_code_init), &ours) != 0) {
    namespace fs = std::filesystem;
    std::error_code unknown;
    all.push_back(fs::path(ours.dli_fname).parent_path());
    if (auto real = fs::canonical(ours.dli_fname, unknown).parent_path(); !unknown && real != all.front())
      all.push_back(std::move(real));
  }
  for (const char* place : packaged)
    if (std::ranges::find(all, place) == all.end()) all.emplace_back(place);
  return all;
}

struct File {
  Library library;
  std::string path;
};

File find_stock(std::string_view name, const std::string& directory) {
  const auto searched = directory.empty() ? places() : std::vector{directory};
  for (const std::string& place : searched) {
    std::string path = fmt::format("{}/libec_{}.so", place, name);
    if (Library library = open(path)) return {std::move(library), std::move(path)};
  }
  refuse(
      ENOENT,
      "Ceph's own libec_{}.so, which codes what this plugin does not, is not in {}; EC_CUDA_STOCK_DIRECTORY "
      "says where it is",
      name, fmt::join(searched, ", "));
}

const char* version_of(const File& file) {
  const auto version = find_in<const char* (*)()>(file.library, "__erasure_code_version");
  if (version == nullptr) refuse(EXDEV, "{} is no plugin of Ceph's", file.path);
  return version();
}

/// Has the plugin register.
void start(const File& file, std::string as) {
  const auto init = find_in<int (*)(char*, char*)>(file.library, "__erasure_code_init");
  const char *version = version_of(file), *host = host_version();
  if (init == nullptr) refuse(EXDEV, "{} is no plugin of Ceph's", file.path);
  // A host that exports no version has compared the stock plugin's version.
  if (host != nullptr && std::strcmp(version, host) != 0)
    refuse(EXDEV, "{} is for Ceph {}, and this host is of {}", file.path, version, host);
  std::string directory = file.path.substr(0, file.path.rfind('/'));
  if (const int error = init(as.data(), directory.data()); error != 0)
    refuse(error < 0 ? -error : error, "{} does not start: {}", file.path,
           std::strerror(error < 0 ? -error : error));
}

}  // namespace

Stock load_stock(std::string_view name, const std::string& directory) {
  const auto get = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, get_symbol));
  if (get == nullptr) refuse(ENOTSUP, "this host exports no ErasureCodePluginRegistry::get");
  File file = find_stock(name, directory);
  const std::string as = stock_name(name);
  if (ErasureCodePlugin* there = get(&ErasureCodePluginRegistry::singleton, as)) return {there, file.path};
  start(file, as);
  ErasureCodePlugin* plugin = get(&ErasureCodePluginRegistry::singleton, as);
  if (plugin == nullptr) refuse(EBADF, "{} has registered nothing", file.path);
  // As the loader does: the registry closes the library at its end.
  plugin->library = file.library.release();
  return {plugin, file.path};
}

void start_stock(std::string_view name, const std::string& directory, const std::string& as) {
  File file = find_stock(name, directory);
  start(file, as);
  (void)file.library.release();  // the registry closes ours in its place
}

const char* version_of_stock(std::string_view name, const std::string& directory) {
  File file = find_stock(name, directory);
  const char* version = version_of(file);
  (void)file.library.release();
  return version;
}

std::string stock_name(std::string_view name) { return std::string(name).append(suffix); }

bool is_stock_name(std::string_view name) noexcept { return name.ends_with(suffix); }

}  // namespace ec::ceph
