// On a host whose interface we do not speak: Ceph's own plugins, under the name by which we were loaded.
//
// The host calls none of our code there but the factory of plugin=cuda, and that only if Ceph's own plugin of
// the host's release has a factory of the same type. The factory hands out an object of Ceph's own, of
// whatever interface.
#pragma once

#include <string>

namespace ec::ceph {

/// Has Ceph's own plugin register as `name`: for isa and jerasure the plugin of that name. Under every other
/// name a plugin of ours registers, which serves portable profiles (portable.hpp) by Ceph's isa and jerasure,
/// and refuses all others: Ceph's own plugins take some of these, and code other bytes. Only from
/// __erasure_code_init. 0 or -errno; throws codec::SetupError as load_stock does.
int pass_through(const std::string& name, const std::string& directory);

}  // namespace ec::ceph
