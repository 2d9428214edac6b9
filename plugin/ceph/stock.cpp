// Finds and loads a plugin of Ceph's own as Ceph's loader would, under another name or in our place. See
// docs/design/pass-through.md.
#include "plugin/ceph/stock.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <ostream>
#include <sstream>
#include <typeinfo>
#include <vector>

#include "plugin/ceph/host.hpp"
#include "plugin/ceph/portable.hpp"
#include "plugin/ceph/profile.hpp"

namespace ec::ceph {
namespace {

using ::ceph::ErasureCodeInterfaceRef;
using ::ceph::ErasureCodePlugin;
using ::ceph::ErasureCodePluginRegistry;
using ::ceph::ErasureCodeProfile;

constexpr std::string_view suffix = " of Ceph's own";

/// Where packages put Ceph's plugins: Debian's, RPM packages, and packages of Ceph's project.
constexpr const char* packaged[] = {"/usr/lib/" EC_LIBRARY_ARCHITECTURE "/ceph/erasure-code",
                                    "/usr/lib64/ceph/erasure-code", "/usr/lib/ceph/erasure-code"};

using Library = std::unique_ptr<void, int (*)(void*)>;

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
  // Its entry points.
  const char* (*version)();
  int (*init)(char*, char*);
};

File find_stock(std::string_view name, const std::string& directory) {
  const auto searched = directory.empty() ? places() : std::vector{directory};
  for (const std::string& place : searched) {
    std::string path = fmt::format("{}/libec_{}.so", place, name);
    if (access(path.c_str(), F_OK) != 0) continue;
    Library library(dlopen(path.c_str(), RTLD_NOW), dlclose);
    if (!library) refuse(EIO, "{}", dlerror());
    // Ours: a link, or a copy, of this version or another.
    if (dlsym(library.get(), "ec_cuda_version") != nullptr) continue;
    const auto version = reinterpret_cast<const char* (*)()>(dlsym(library.get(), "__erasure_code_version"));
    const auto init = reinterpret_cast<int (*)(char*, char*)>(dlsym(library.get(), "__erasure_code_init"));
    if (version == nullptr || init == nullptr) refuse(EXDEV, "{} is no plugin of Ceph's", path);
    return {std::move(library), std::move(path), version, init};
  }
  refuse(
      ENOENT,
      "Ceph's own libec_{}.so, which codes what this plugin does not, is not in {}; EC_CUDA_STOCK_DIRECTORY "
      "says where it is",
      name, fmt::join(searched, ", "));
}

/// Has the plugin register.
void start(const File& file, std::string as) {
  const char *version = file.version(), *host = host_version();
  // A host that exports no version has compared the stock plugin's version.
  if (host != nullptr && std::strcmp(version, host) != 0)
    refuse(EXDEV, "{} is for Ceph {}, and this host is of {}", file.path, version, host);
  std::string directory = file.path.substr(0, file.path.rfind('/'));
  if (const int error = std::abs(file.init(as.data(), directory.data())); error != 0)
    refuse(error, "{} does not start: {}", file.path, std::strerror(error));
}

// --- In our place.

/// The mangled name from the parameters on, in words.
std::string parameters_of(const char* mangled) {
  const std::unique_ptr<char, void (*)(void*)> words(abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr),
                                                     std::free);
  const std::string_view text = words ? words.get() : "";
  const auto at = text.find('(');
  return at == text.npos ? "" : std::string(text.substr(at));
}

/// Whether a plugin has a function of the type of factory() in the place where classic.h has factory(). Its
/// symbol tells, except the return type, which is in no symbol.
bool has_known_factory(const ErasureCodePlugin& plugin) {
  constexpr std::size_t slot = 2;
  using Factory = int(const std::string&, ErasureCodeProfile&, ErasureCodeInterfaceRef*, std::ostream*);
  void* const* table = *reinterpret_cast<void* const* const*>(&plugin);
  Dl_info function{};
  if (dladdr(table[slot], &function) == 0 || function.dli_sname == nullptr ||
      function.dli_saddr != table[slot])
    return false;
  return std::string_view(function.dli_sname).find("7factoryE") != std::string_view::npos &&
         parameters_of(function.dli_sname) == parameters_of(typeid(Factory).name());
}

/// One of Ceph's own plugins, or the reason why there is none.
struct LoadedStock {
  ErasureCodePlugin* plugin = nullptr;
  std::string why_not;
};

LoadedStock load(std::string_view name, const std::string& directory) try {
  const Stock stock = load_stock(name, directory);
  if (!has_known_factory(*stock.plugin))
    return {nullptr, stock.file + " has another factory than this plugin knows"};
  return {stock.plugin, ""};
} catch (const codec::SetupError& e) {
  return {nullptr, e.what()};
}

/// The plugin in the role of cuda.
class PassThrough final : public ErasureCodePlugin {
 public:
  PassThrough(LoadedStock isa, LoadedStock jerasure) : isa_(std::move(isa)), jerasure_(std::move(jerasure)) {}

  int factory(const std::string& directory, ErasureCodeProfile& profile,
              ErasureCodeInterfaceRef* erasure_code, std::ostream* ss) override try {
    std::ostringstream said;
    const int error = factory_of_theirs(directory, profile, erasure_code, said);
    if (ss != nullptr) *ss << said.str();
    if (error == 0) return 0;
    ErasureCodeProfile shown = profile;  // gets the keys that the host's lacks
    tell("ec_cuda: a pool of k={} m={} technique={} is not served on this Ceph: {}", shown["k"], shown["m"],
         shown["technique"], said.str());
    return error;
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }

 private:
  int factory_of_theirs(const std::string& directory, ErasureCodeProfile& profile,
                        ErasureCodeInterfaceRef* erasure_code, std::ostream& said) try {
    const Portability as = portability(profile);
    if (!as) {
      said << as.why_not
           << " for Ceph's own plugins to code it; install an ec-cuda that knows this release of Ceph";
      return -ENOTSUP;
    }
    const LoadedStock& theirs = as.plugin == "isa" ? isa_ : jerasure_;
    if (theirs.plugin == nullptr) {
      said << theirs.why_not;
      return -ENOENT;
    }
    if (as.plugin == "jerasure") {
      // Ceph's own plugin gives the technique another name, and the host compares. A monitor would store the
      // other name, and plugin=cuda with that name is another code.
      if (!is_osd()) {
        said << "technique=" << profile["technique"] << " must be plugin=jerasure technique=" << as.technique
             << " here: only OSDs of this release have pools of it as plugin=cuda";
        return -ENOTSUP;
      }
      profile["technique"] = as.technique;
    }
    // The OSDs of a pool may still be of a release that is known, and abort at a profile that they refuse.
    if (!is_osd()) {
      ErasureCodeProfile as_there = profile;
      parse_profile(Role::own, as_there, tentacle_release);
    }
    return theirs.plugin->factory(directory, profile, erasure_code, &said);
  } catch (const codec::SetupError& e) {
    said << e.what();
    return -e.code();
  }

  LoadedStock isa_, jerasure_;
};

}  // namespace

Stock load_stock(std::string_view name, const std::string& directory) {
  if (!exists(&ErasureCodePluginRegistry::get) || !exists(&ErasureCodePluginRegistry::add))
    refuse(ENOTSUP, "this host exports no ErasureCodePluginRegistry::add and get");
  File file = find_stock(name, directory);
  const std::string as = std::string(name).append(suffix);
  auto& registry = ErasureCodePluginRegistry::singleton;
  if (ErasureCodePlugin* there = registry.get(as)) return {there, file.path};
  start(file, as);
  ErasureCodePlugin* plugin = registry.get(as);
  if (plugin == nullptr) refuse(EBADF, "{} has registered nothing", file.path);
  // As the loader does: the registry closes the library at its end.
  plugin->library = file.library.release();
  return {plugin, file.path};
}

const char* version_of_stock(std::string_view name, const std::string& directory) {
  File file = find_stock(name, directory);
  (void)file.library.release();
  return file.version();
}

bool is_stock_name(std::string_view name) noexcept { return name.ends_with(suffix); }

int pass_through(const std::string& name, const std::string& directory) {
  if (role_of(name) != Role::own) {
    File file = find_stock(name, directory);
    start(file, name);
    (void)file.library.release();  // the registry closes ours in its place, and never this one
    return 0;
  }
  LoadedStock isa = load("isa", directory), jerasure = load("jerasure", directory);
  if (isa.plugin == nullptr && jerasure.plugin == nullptr) throw codec::SetupError(ENOENT, isa.why_not);
  return ErasureCodePluginRegistry::singleton.add(name, new PassThrough(std::move(isa), std::move(jerasure)));
}

}  // namespace ec::ceph
