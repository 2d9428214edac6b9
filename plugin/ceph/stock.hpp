// Ceph's own plugins: beside ours, which stands in front of one, and in our place on a host whose interface
// we do not speak.
#pragma once

#include <string>
#include <string_view>

#include "ceph/classic.h"

namespace ec::ceph {

struct Stock {
  ::ceph::ErasureCodePlugin* plugin;  ///< the registry's
  std::string file;
};

/// Loads libec_NAME.so of `directory` or, if `directory` is empty, from beside our file or from the folder of
/// Ceph's packages, by the rules of Ceph's loader, and has the plugin register under a name that
/// is_stock_name(), unless it has. Only while the host runs our __erasure_code_init, which has the registry's
/// lock. The plugin stays loaded, and belongs to the registry. Files of ours are passed over. Throws
/// codec::SetupError, with a sentence that names the file and the problem: ENOENT there is no file; EIO it
/// cannot be loaded; EXDEV it is for another release than this host's; ENOTSUP the host exports no registry
/// to find it in; else the plugin's own errno.
Stock load_stock(std::string_view name, const std::string& directory);

/// The version that the file which load_stock() would take states. The file stays loaded. Throws as
/// load_stock().
const char* version_of_stock(std::string_view name, const std::string& directory);

/// Whether a stock plugin beside ours has this name in the registry; no profile has a plugin of such a name.
bool is_stock_name(std::string_view name) noexcept;

/// Has Ceph's own plugin register as `name`: for isa and jerasure the plugin of that name. Under every other
/// name a plugin of ours registers, which serves portable profiles (portable.hpp) by Ceph's isa and jerasure,
/// and refuses all others: Ceph's own plugins take some of these, and code other bytes. The host calls none
/// of our code then but the factory of plugin=cuda, and that only if Ceph's own plugin of the host's release
/// has a factory of the same type. The factory hands out an object of Ceph's own, of whatever interface. Only
/// from __erasure_code_init. 0 or -errno; throws codec::SetupError as load_stock does.
int pass_through(const std::string& name, const std::string& directory);

}  // namespace ec::ceph

extern "C" {
/// Our version. A library that has this function is a file of ours, whatever its name.
__attribute__((visibility("default"))) const char* ec_cuda_version();
}
