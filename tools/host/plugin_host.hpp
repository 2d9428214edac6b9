// Loads Ceph erasure-code plugins into this process, several at once, by the rules of Ceph's daemons.
#pragma once

#include <memory>
#include <ostream>
#include <string>

#include "ceph/classic.h"

namespace ec::host {

/// What make() answers: an object, or why there is none.
struct MadeCode {
  std::shared_ptr<::ceph::ErasureCodeInterface> code;  ///< null on failure
  int error = 0;                                       ///< 0 or -errno

  explicit operator bool() const { return code != nullptr; }
};

/// The host of this process. Plugins are known by name alone, as in a daemon, and stay loaded until the
/// process ends. Thread safe.
class PluginHost {
 public:
  /// Creates the process's Ceph context on first use, which plugins log through.
  /// Throws std::runtime_error if librados cannot make one.
  static PluginHost& instance();

  PluginHost(const PluginHost&) = delete;
  PluginHost& operator=(const PluginHost&) = delete;

  /// Loads DIRECTORY/libec_NAME.so unless a plugin of that name is loaded. The reason of a failure goes to
  /// *why, which may be null. Returns 0, or
  ///   -EIO     the file is missing or not loadable, undefined symbols included
  ///   -EXDEV   it has no version or another one than this host (version())
  ///   -ENOENT  it has no __erasure_code_init
  ///   -EBADF   its __erasure_code_init succeeded and registered nothing under the name
  ///   else     what its __erasure_code_init returned
  int load(const std::string& name, const std::string& directory, std::ostream* why);

  /// Loads the plugin and has it make an object for `profile`, into which the plugin writes its defaults.
  /// error is that of load(), what the plugin's factory returned, or -EINVAL if the object's profile differs
  /// from `profile` afterwards.
  MadeCode make(const std::string& name, const std::string& directory, ::ceph::ErasureCodeProfile& profile,
                std::ostream* why);

  /// The version string that plugins must return, e.g. "16.2.15".
  static std::string version();

 private:
  PluginHost();
};

}  // namespace ec::host
