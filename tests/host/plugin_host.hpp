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

  /// Has the plugin make an object for `profile`, into which it writes its defaults. DIRECTORY/libec_NAME.so
  /// is loaded unless a plugin of that name is. error: -EIO, -EXDEV, -ENOENT, -EBADF for a file that Ceph's
  /// loader would refuse by these, what its __erasure_code_init or its factory returned, or -EINVAL if the
  /// object's profile differs from `profile` afterwards. The reason goes to *why, which may be null.
  MadeCode make(const std::string& name, const std::string& directory, ::ceph::ErasureCodeProfile& profile,
                std::ostream* why);

  /// The version string that plugins must return, e.g. "16.2.15".
  static std::string version();

 private:
  PluginHost();
};

}  // namespace ec::host
