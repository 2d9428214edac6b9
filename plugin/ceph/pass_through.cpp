// Ceph's own plugins in our place. See docs/design/pass-through.md.
#include "plugin/ceph/pass_through.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>
#include <ostream>
#include <sstream>
#include <string_view>
#include <typeinfo>

#include "plugin/ceph/daemon_log.hpp"
#include "plugin/ceph/host.hpp"
#include "plugin/ceph/portable.hpp"
#include "plugin/ceph/role.hpp"
#include "plugin/ceph/stock.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::ceph {
namespace {

using ::ceph::ErasureCodeInterfaceRef;
using ::ceph::ErasureCodePlugin;
using ::ceph::ErasureCodeProfile;

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
    if (error != 0)
      tell(fmt::format("ec_cuda: a pool of k={} m={} technique={} is not served on this Ceph: {}",
                       profile["k"], profile["m"], profile["technique"], said.str()));
    return error;
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }

 private:
  int factory_of_theirs(const std::string& directory, ErasureCodeProfile& profile,
                        ErasureCodeInterfaceRef* erasure_code, std::ostream& said) {
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
    return theirs.plugin->factory(directory, profile, erasure_code, &said);
  }

  LoadedStock isa_, jerasure_;
};

}  // namespace

int pass_through(const std::string& name, const std::string& directory) {
  if (role_of(name) != Role::own) {
    start_stock(name, directory, name);
    return 0;
  }
  LoadedStock isa = load("isa", directory), jerasure = load("jerasure", directory);
  if (isa.plugin == nullptr && jerasure.plugin == nullptr) throw codec::SetupError(ENOENT, isa.why_not);
  return ::ceph::ErasureCodePluginRegistry::singleton.add(
      name, new PassThrough(std::move(isa), std::move(jerasure)));
}

}  // namespace ec::ceph
