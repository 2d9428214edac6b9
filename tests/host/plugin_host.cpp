#include "tests/host/plugin_host.hpp"

#include <dlfcn.h>
#include <rados/librados.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

class CephContext;

// From libceph-common.
const char* ceph_version_to_str();
namespace ceph::global {
extern CephContext* g_ceph_context;
}

namespace {

/// The plugins of the registry, which are never destroyed: their libraries stay loaded.
std::map<std::string, ceph::ErasureCodePlugin*>& registered() {
  static auto* plugins = new std::map<std::string, ceph::ErasureCodePlugin*>;
  return *plugins;
}

}  // namespace

namespace ceph {

ErasureCodePluginRegistry ErasureCodePluginRegistry::singleton;

int ErasureCodePluginRegistry::add(const std::string& name, ErasureCodePlugin* plugin) {
  return registered().emplace(name, plugin).second ? 0 : -EEXIST;
}

ErasureCodePlugin* ErasureCodePluginRegistry::get(const std::string& name) {
  const auto found = registered().find(name);
  return found == registered().end() ? nullptr : found->second;
}

// For plugins that code by others, as lrc does.
int ErasureCodePluginRegistry::factory(const std::string& name, const std::string& directory,
                                       ErasureCodeProfile& profile, ErasureCodeInterfaceRef* erasure_code,
                                       std::ostream* ss) {
  auto made = ec::host::PluginHost::instance().make(name, directory, profile, ss);
  *erasure_code = std::move(made.code);
  return made.error;
}

}  // namespace ceph

namespace ec::host {
namespace {

/// Held while plugins register, as a daemon holds the lock of its registry.
std::mutex& registry_mutex() {
  static std::mutex mutex;
  return mutex;
}

void say(std::ostream* why, const std::string& text) {
  if (why != nullptr) *why << text;
}

template <class Function>
Function* find(void* library, const char* symbol) {
  return reinterpret_cast<Function*>(dlsym(library, symbol));
}

ceph::ErasureCodePlugin* find_plugin(const std::string& name) {
  return ceph::ErasureCodePluginRegistry::singleton.get(name);
}

/// Of an object behind any of Ceph's interfaces: its slot is the same in all. A sanitizer sees another class.
[[gnu::no_sanitize("vptr")]] const ceph::ErasureCodeProfile& profile_of(
    const ceph::ErasureCodeInterface& code) {
  return code.get_profile();
}

/// Loads a plugin that is not loaded yet, with the registry's lock held.
int load(const std::string& name, const std::string& directory, std::ostream* why) {
  if (find_plugin(name) != nullptr) return 0;
  const std::string file = directory + "/libec_" + name + ".so";
  // Closed again unless it is kept.
  std::unique_ptr<void, int (*)(void*)> library(dlopen(file.c_str(), RTLD_NOW), dlclose);
  if (!library) {
    say(why, std::string("dlopen: ") + dlerror());
    return -EIO;
  }
  auto* version = find<const char*()>(library.get(), "__erasure_code_version");
  if (version == nullptr || version() != PluginHost::version()) {
    say(why, file + " is of version " + (version != nullptr ? version() : "(none)") + ", this host of " +
                 PluginHost::version());
    return -EXDEV;
  }
  auto* init = find<int(char* name, char* directory)>(library.get(), "__erasure_code_init");
  if (init == nullptr) {
    say(why, file + " has no __erasure_code_init");
    return -ENOENT;
  }
  std::string name_argument = name;
  std::string directory_argument = directory;
  if (const int r = init(name_argument.data(), directory_argument.data()); r != 0) {
    say(why, file + ": __erasure_code_init: " + std::strerror(-r));
    registered().erase(name);  // what it may have registered is unloaded with it
    return r;
  }
  ceph::ErasureCodePlugin* plugin = find_plugin(name);
  if (plugin == nullptr) {
    say(why, file + " did not register " + name);
    return -EBADF;
  }
  plugin->library = library.release();
  return 0;
}

}  // namespace

PluginHost& PluginHost::instance() {
  static PluginHost host;
  return host;
}

PluginHost::PluginHost() {
  rados_t cluster = nullptr;
  if (const int r = rados_create(&cluster, nullptr); r != 0)
    throw std::runtime_error(std::string("rados_create: ") + std::strerror(-r));
  // The cluster handle owns the context and is kept for plugins that log when the process ends.
  ceph::global::g_ceph_context = static_cast<CephContext*>(rados_cct(cluster));
}

std::string PluginHost::version() { return ceph_version_to_str(); }

MadeCode PluginHost::make(const std::string& name, const std::string& directory,
                          ceph::ErasureCodeProfile& profile, std::ostream* why) {
  ceph::ErasureCodePlugin* plugin = nullptr;
  {
    std::lock_guard lock(registry_mutex());
    if (const int r = load(name, directory, why); r != 0) return {nullptr, r};
    plugin = find_plugin(name);
  }
  // Some plugins write to the stream without looking whether there is one.
  std::ostream nowhere(nullptr);
  std::ostream* reasons = why != nullptr ? why : &nowhere;
  MadeCode made;
  made.error = plugin->factory(directory, profile, &made.code, reasons);
  if (made.error != 0) {
    made.code.reset();
  } else if (profile != profile_of(*made.code)) {
    *reasons << "the plugin " << name << " made an object of another profile than it was given";
    made = {nullptr, -EINVAL};
  }
  return made;
}

}  // namespace ec::host
