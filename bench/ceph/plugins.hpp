// Ceph plugins in this process, as ec_bench measures them.
#pragma once

#include <string>

#include "ceph/classic.h"
#include "gf/generator.hpp"

namespace ec::bench {

/// NAME, or NAME=DIRECTORY where libec_NAME.so is not in its usual place.
struct PluginName {
  explicit PluginName(const std::string& text);

  std::string name;
  std::string directory;
};

/// An object of the plugin for that code, behind the interface that this host speaks. Throws UsageError where
/// the plugin refuses, and std::runtime_error if this program exposes an ISA-L that would replace that of the
/// plugins.
::ceph::ErasureCodeInterfaceRef make_code(const PluginName& plugin, gf::Technique technique, unsigned k,
                                          unsigned m);

}  // namespace ec::bench
