// Ceph plugins in this process, as `ec_bench ceph` measures them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ceph/classic.h"
#include "gf/generator.hpp"

namespace ec::bench {

/// One plugin that takes part.
struct Plugin {
  std::string name;       ///< it registers under, and is reported by
  std::string directory;  ///< of libec_NAME.so
  bool by_peer = false;   ///< codes by the ISA-L of --isal
};

/// Another ISA-L in this process: plugins that are loaded after it, and reach ISA-L through their procedure
/// linkage table, call its functions in place of their own.
class PeerIsal {
 public:
  /// Throws UsageError if the file cannot be loaded or is no ISA-L.
  explicit PeerIsal(const std::string& file);

  const std::string& name() const { return name_; }
  /// Whether `call` executes code of this library. Found by taking its pages the right to be executed and
  /// giving it back at the first fault. For one thread at a time.
  bool is_run_by(const std::function<void()>& call) const;

  struct Segment {
    std::uintptr_t begin;
    std::size_t bytes;
  };

 private:
  std::string name_;  ///< of the file
  std::vector<Segment> code_;
};

/// The plugins of a command line. Throws UsageError, and std::runtime_error if this program exposes an ISA-L,
/// which would take the place of that of the plugins.
class Plugins {
 public:
  /// list: NAME, or NAME=DIRECTORY where libec_NAME.so is not in its usual place. peer_file: of an ISA-L by
  /// which a copy of the plugin `isa` is to code beside that plugin; empty: none.
  Plugins(const std::vector<std::string>& list, const std::string& peer_file);

  const std::vector<Plugin>& list() const { return list_; }
  /// The technique that they all have in common for that shape.
  gf::Technique technique_for(unsigned k, unsigned m) const;
  /// An object of the plugin for that code, behind the interface that this host speaks.
  ::ceph::ErasureCodeInterfaceRef make_code(const Plugin& plugin, gf::Technique technique, unsigned k,
                                            unsigned m) const;
  /// The name of the peer if `call` runs its code, else empty.
  std::string isal_of(const std::function<void()>& call) const {
    return peer_ && peer_->is_run_by(call) ? peer_->name() : "";
  }

 private:
  std::vector<Plugin> list_;
  std::optional<PeerIsal> peer_;
};

}  // namespace ec::bench
