// The entry points that a Ceph daemon looks up in libec_cuda.so, and the factory they register.
#include <cerrno>
#include <cstdio>
#include <new>
#include <ostream>
#include <string>

#include "ceph/classic.h"
#include "plugin/ceph/erasure_code.hpp"
#include "plugin/ceph/host.hpp"
#include "plugin/codec/settings/settings.hpp"
#include "plugin/codec/settings/setup_error.hpp"
#ifdef EC_WITH_CUDA
#include "plugin/codec/settings/settings.hpp"
#endif

namespace ec::ceph {
namespace {

class Plugin final : public ::ceph::ErasureCodePlugin {
 public:
  int factory(const std::string&, ::ceph::ErasureCodeProfile& profile,
              ::ceph::ErasureCodeInterfaceRef* erasure_code, std::ostream* ss) override try {
    auto made = std::make_shared<ErasureCode>();
    if (const int error = made->init(profile, ss)) return error;
    *erasure_code = std::move(made);
    return 0;
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
};

/// Only notes what is wanted; the device is not touched before the first job, because daemons fork after
/// this.
void configure_device([[maybe_unused]] const codec::NodeSettings& node) {
#ifdef EC_WITH_CUDA
  auto options = node.device;
  options.log = [](const char* line) { std::fprintf(stderr, "%s\n", line); };
  kernels::cuda::configure(options);
#endif
}

}  // namespace
}  // namespace ec::ceph

extern "C" const char* __erasure_code_version() {
  // The host compares for equality, so that a plugin is rebuilt for each point release. The interface has not
  // changed in four major releases, so we answer with the host's own version where it is one of those.
  const char* host = ec::ceph::host_version();
  return ec::ceph::speaks_classic(host) ? host : "libec_cuda.so for Ceph 16 to 19";
}

extern "C" int __erasure_code_init(char* plugin_name, char*) {
  // A host that skips the comparison must not get an object with the wrong virtual table.
  if (!ec::ceph::speaks_classic(ec::ceph::host_version())) return -EXDEV;
  try {
    const auto& node = ec::codec::node_settings();
    if (!node.costs.refused.empty()) std::fprintf(stderr, "%s\n", node.costs.refused.c_str());
    ec::ceph::configure_device(node);
    return ceph::ErasureCodePluginRegistry::singleton.add(plugin_name, new ec::ceph::Plugin);
  } catch (const ec::codec::SetupError& e) {
    // There is no stream at this door; a daemon's stderr reaches its journal.
    std::fprintf(stderr, "plugin %s: %s\n", plugin_name, e.what());
    return -e.code();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
}
