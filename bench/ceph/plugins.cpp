// Loads the plugins that are measured.
#include "bench/ceph/plugins.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "bench/common/options.hpp"
#include "tools/host/plugin_host.hpp"

namespace ec::bench {
namespace {

/// What a plugin calls it.
std::string technique_by(const std::string& plugin, gf::Technique technique) {
  return plugin == "jerasure" ? "reed_sol_van" : std::string(gf::name(technique));
}

/// Whether an ISA-L stands in front of that of the plugins, other than one that the user has put there by
/// LD_PRELOAD.
bool exposes_isal() {
  void* const function = dlsym(RTLD_DEFAULT, "ec_encode_data");
  Dl_info info{};
  if (function == nullptr || dladdr(function, &info) == 0) return function != nullptr;
  const char* preloads = std::getenv("LD_PRELOAD");
  return preloads == nullptr ||
         std::strstr(preloads, std::filesystem::path(info.dli_fname).filename().c_str()) == nullptr;
}

/// Ours is that of the build that this program lies in; once installed, all lie together.
std::string usual_directory(const std::string& plugin) {
  const auto built =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/erasure-code";
  return plugin == "cuda" && std::filesystem::exists(built / "libec_cuda.so") ? built.string()
                                                                              : EC_STOCK_PLUGIN_DIR;
}

}  // namespace

PluginName::PluginName(const std::string& text) {
  const std::size_t equals = text.find('=');
  name = text.substr(0, equals);
  directory = equals == std::string::npos ? usual_directory(name) : text.substr(equals + 1);
}

::ceph::ErasureCodeInterfaceRef make_code(const PluginName& plugin, gf::Technique technique, unsigned k,
                                          unsigned m) {
  if (exposes_isal())
    throw std::runtime_error("this program exposes an ISA-L, which would replace that of the plugins");
  ::ceph::ErasureCodeProfile profile{{"plugin", plugin.name},
                                     {"technique", technique_by(plugin.name, technique)},
                                     {"k", std::to_string(k)},
                                     {"m", std::to_string(m)}};
  std::ostringstream why;
  const auto made = host::PluginHost::instance().make(plugin.name, plugin.directory, profile, &why);
  if (!made)
    throw UsageError(
        fmt::format("--plugin {}={}: {} ({})", plugin.name, plugin.directory, why.str(), made.error));
  return made.code;
}

}  // namespace ec::bench
