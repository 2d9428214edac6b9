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

/// Loads libec_NAME.so of `directory` or, if that is empty, of where Ceph's packages put it, by the rules of
/// Ceph's loader, and has it register under stock_name(). Only while the host runs our __erasure_code_init,
/// which has the registry's lock. It stays loaded, and belongs to the registry. Throws codec::SetupError,
/// with a sentence that says which file and what is the matter: ENOENT none is there; EIO it cannot be
/// loaded; EXDEV it is for another release than this host's; EINVAL it is this plugin and not Ceph's; ENOTSUP
/// the host exports no registry to find it in; else what it answers itself.
Stock load_stock(std::string_view name, const std::string& directory);

/// The name that a stock plugin has in the registry beside ours; no profile has a plugin of such a name.
std::string stock_name(std::string_view name);
/// Whether it is a stock_name().
bool is_stock_name(std::string_view name) noexcept;

}  // namespace ec::ceph
