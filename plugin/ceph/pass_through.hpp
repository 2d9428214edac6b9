// On a host whose interface we do not speak: Ceph's own plugins, under the name that we were loaded by.
//
// Nothing of ours is called there but the factory of plugin=cuda, and that only if Ceph's own plugin of the
// host's release has a factory of the same type. What it hands out is an object of Ceph's own, of whatever
// interface.
#pragma once

#include <string>

namespace ec::ceph {

/// What __erasure_code_version answers to a host that exports no version: that of Ceph's own plugins, or null
/// if there are none, which it tells. directory: EC_CUDA_STOCK_DIRECTORY, or empty.
const char* stock_version(const std::string& directory) noexcept;

/// Has Ceph's own plugin register as `name`. As isa and jerasure that is the plugin of that name. Under every
/// other name a plugin of ours registers that serves portable profiles (portable.hpp) by Ceph's isa and
/// jerasure, and refuses all others: Ceph's own plugins take some of those, and code other bytes. Only from
/// __erasure_code_init. 0 or -errno; throws codec::SetupError as load_stock does.
int pass_through(const std::string& name, const std::string& directory);

}  // namespace ec::ceph
