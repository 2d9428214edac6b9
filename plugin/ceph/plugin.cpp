// The entry points that a Ceph daemon looks up in libec_cuda.so, and the factory they register.

#include <cerrno>
#include <cstdio>
#include <new>
#include <ostream>
#include <string>

#include "kernels/backends.hpp"
#include "plugin/ceph/door.hpp"
#include "plugin/ceph/host.hpp"
#include "plugin/ceph/portable.hpp"
#include "plugin/ceph/stock.hpp"
#include "plugin/ceph/tentacle.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::ceph {
namespace {

/// Makes objects of one dialect. The host takes each object for one of its own dialect.
template <class Code>
class CudaPlugin final : public ::ceph::ErasureCodePlugin {
 public:
  /// stock: codes the profiles that are not ours in this role; not asked where all are ours.
  CudaPlugin(Role role, ::ceph::ErasureCodePlugin* stock) : role_(role), stock_(stock) {}

  int factory(const std::string& directory, ::ceph::ErasureCodeProfile& profile,
              ::ceph::ErasureCodeInterfaceRef* erasure_code, std::ostream* ss) override try {
    if (!is_ours(role_, profile, release_of(host_version())))
      return stock_->factory(directory, profile, erasure_code, ss);
    auto made = std::make_shared<Code>(role_);
    if (const int error = made->init(profile, ss)) return error;
    if (role_ == Role::own) {
      const std::string plugin = portability(profile).plugin;
      using enum codec::Event;
      codec::stats().happened(plugin == "isa" ? isa_code : plugin == "jerasure" ? jerasure_code : own_code);
    }
    using Ref = std::shared_ptr<typename Code::Interface>;
    static_assert(sizeof(Ref) == sizeof *erasure_code);
    *reinterpret_cast<Ref*>(erasure_code) = std::move(made);
    return 0;
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }

 private:
  Role role_;
  ::ceph::ErasureCodePlugin* stock_;
};

::ceph::ErasureCodePlugin* new_plugin(Dialect dialect, Role role, ::ceph::ErasureCodePlugin* stock) {
  if (dialect == Dialect::tentacle) return new CudaPlugin<Tentacle>(role, stock);
  return new CudaPlugin<Classic>(role, stock);
}

/// The plugin for the pools of jerasure that we do not code; null in the other roles.
::ceph::ErasureCodePlugin* stock_for(Role role, const codec::NodeSettings& node) {
  if (role != Role::jerasure) return nullptr;
  const Stock stock = load_stock("jerasure", node.stock_directory);
  std::fprintf(
      stderr,
      "ec_cuda: pools of jerasure with reed_sol_van or reed_sol_r6_op and w=8 are coded by ec_cuda, all "
      "others by %s\n",
      stock.file.c_str());
  return stock.plugin;
}

/// For monitors, and for the programs that make rules in their place.
void find_rule_maker(const codec::NodeSettings& node) {
  try {
    set_rule_maker(*load_stock("isa", node.stock_directory).plugin);
  } catch (const codec::SetupError&) {
    // A host without that file makes no pools of more than 20 shards.
  }
}

/// Only notes the settings; the device is not touched before the first job, because daemons fork after
/// this.
void configure_device(const codec::NodeSettings& node) {
  auto options = node.device;
  options.alone_in_process = true;
  options.log = [](const char* line) { std::fprintf(stderr, "%s\n", line); };
  kernels::cuda::configure(options);
}

/// For a host that we only pass through: no other setting matters there, and no wrong setting stops it.
std::string stock_directory() {
  try {
    return codec::node_settings().stock_directory;
  } catch (const codec::SetupError& e) {
    tell("ec_cuda: settings are not read: {}", e.what());
    return {};
  }
}

/// Called once in a process, from the first entry point used: a host that refuses us after this call says
/// nothing.
void tell_that_we_pass_through(const std::string& why) {
  tell("ec_cuda: {}: it hands over to Ceph's own plugins", why);
}

}  // namespace
}  // namespace ec::ceph

extern "C" const char* ec_cuda_version() { return EC_VERSION; }

extern "C" const char* __erasure_code_version() {
  // The host compares for equality, so that a plugin is rebuilt for each point release. The interfaces that
  // we know have not changed in point releases, and for others Ceph's own plugins are asked, so we answer
  // with the host's own version.
  using namespace ec::ceph;
  const char* host = host_version();
  if (dialect_of(host) != Dialect::none) return host;
  try {
    std::string why;
    host_dialect(&why);
    tell_that_we_pass_through(why);
    if (host == nullptr) host = version_of_stock("isa", stock_directory());
  } catch (const std::exception& e) {
    tell("ec_cuda: this host exports {}, and {}", host != nullptr ? host : "no version", e.what());
  }
  return host != nullptr ? host : "libec_cuda.so for Ceph 16 to 20";
}

extern "C" int __erasure_code_init(char* plugin_name, char*) {
  using namespace ec::ceph;
  // This door has no stream.
  const auto say = [&](const char* text) { tell("plugin {}: {}", plugin_name, text); };
  try {
    // The caller looked for Ceph's own plugin and found a copy of this one.
    if (is_stock_name(plugin_name)) return say("this is ec_cuda"), -EINVAL;
    std::string why;
    const Dialect dialect = host_dialect(&why);
    if (dialect == Dialect::none) {
      tell_that_we_pass_through(why);
      ec::codec::stats().speaks("stock");
      return pass_through(plugin_name, stock_directory());
    }
    const auto& node = ec::codec::node_settings();
    configure_device(node);
    ec::codec::stats().speaks(name(dialect));
    if (release_of(host_version()) == 16 && !is_osd()) find_rule_maker(node);
    const Role role = role_of(plugin_name);
    std::fprintf(stderr, "ec_cuda: version %s for Ceph %s, %s interface%s%s\n", EC_VERSION, host_version(),
                 name(dialect).data(), role == Role::own ? "" : ", in the place of ",
                 role == Role::own ? "" : plugin_name);
    if (const auto missing = ec::kernels::missing_backend(); !missing.empty())
      std::fprintf(stderr, "ec_cuda: ISA-L codes nothing here, others do: %s\n", missing.data());
    return ceph::ErasureCodePluginRegistry::singleton.add(plugin_name,
                                                          new_plugin(dialect, role, stock_for(role, node)));
  } catch (const ec::codec::SetupError& e) {
    say(e.what());
    return -e.code();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
}
