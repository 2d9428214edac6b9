// The plugin of Ceph's own that we stand before: its file, loaded beside ours.
#pragma once

#include <string>
#include <string_view>

#include "ceph/classic.h"

namespace ec::ceph {

struct Stock {
  ::ceph::ErasureCodePlugin* plugin;  ///< the registry's
  std::string file;
};

/// Loads libec_NAME.so of `directory` or, if that is empty, from beside our file or from where Ceph's
/// packages put it, by the rules of Ceph's loader, and has it register under stock_name(), unless it has.
/// Only while the host runs our __erasure_code_init, which has the registry's lock. It stays loaded, and
/// belongs to the registry. Files of ours are passed over. Throws codec::SetupError, with a sentence that
/// says which file and what is the matter: ENOENT none is there; EIO it cannot be loaded; EXDEV it is for
/// another release than this host's; ENOTSUP the host exports no registry to find it in; else what it answers
/// itself.
Stock load_stock(std::string_view name, const std::string& directory);

/// The same, but it registers as `as`, and nothing is asked of the host's registry. The registry closes our
/// file in its place, so it is never unloaded.
void start_stock(std::string_view name, const std::string& directory, const std::string& as);

/// What the file that load_stock() would take says to be the version of. It stays loaded. Throws as
/// load_stock().
const char* version_of_stock(std::string_view name, const std::string& directory);

/// The name that a stock plugin has in the registry beside ours; no profile has a plugin of such a name.
std::string stock_name(std::string_view name);
/// Whether it is a stock_name().
bool is_stock_name(std::string_view name) noexcept;

}  // namespace ec::ceph

extern "C" {
/// Our version. That a library has this function tells that it is a file of ours, whatever its name.
__attribute__((visibility("default"))) const char* ec_cuda_version();
}
