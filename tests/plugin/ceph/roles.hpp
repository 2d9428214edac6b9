// Our plugin under the names of Ceph's own, and those plugins, in one process.
#pragma once

#include <memory>
#include <sstream>
#include <string>

#include "ceph/tentacle.h"
#include "tests/host/plugin_host.hpp"
#include "tests/plugin/ceph/plugin_pair.hpp"

namespace ec::test {

using Profile = ::ceph::ErasureCodeProfile;

/// A folder of plugins for this process: ours as isa, jerasure and cuda; Ceph's own isa and jerasure as
/// stockisa and stockjerasure, for a host knows a plugin by its name alone; and Ceph's lrc.
const std::string& role_folder();

/// The release of the host's interface, 16 to 20.
int host_release();

/// What a plugin makes of a profile.
struct Made {
  int error = 0;  ///< 0 or -errno
  std::string why;
  Profile profile;  ///< as the plugin has completed it
  ::ceph::ErasureCodeInterfaceRef code;
};
Made make(const std::string& plugin, Profile profile);
/// Whether the object is of our plugin's file, and not of Ceph's.
bool is_by_ours(const Made& made);

/// The functions of both interfaces that are called alike, and those that are not.
class Code {
 public:
  explicit Code(::ceph::ErasureCodeInterfaceRef code) : classic_(std::move(code)) {
    if (host_release() >= 20)
      tentacle_ = std::reinterpret_pointer_cast<::ceph::tentacle::ErasureCodeInterface>(std::move(classic_));
  }

  /// Calls `use` with a reference to the object behind the interface that the host speaks.
  template <class Use>
  auto with(Use use) const {
    return tentacle_ ? use(*tentacle_) : use(*classic_);
  }
  unsigned n() const {
    return with([](auto& code) { return code.get_chunk_count(); });
  }
  unsigned k() const {
    return with([](auto& code) { return code.get_data_chunk_count(); });
  }
  unsigned chunk_size(unsigned width) const {
    return with([&](auto& code) { return code.get_chunk_size(width); });
  }
  std::vector<int> mapping() const {
    if (!tentacle_) return classic_->get_chunk_mapping();
    std::vector<int> shards;
    for (const auto shard : tentacle_->get_chunk_mapping()) shards.push_back(shard.id);
    return shards;
  }
  /// What Ceph 20 may do with pools of it; none before.
  std::string optimizations() const {
    return !tentacle_ ? ""
                      : std::to_string(tentacle_->get_supported_optimizations()) + " " +
                            tentacle_->get_optimizations_flags_string();
  }
  /// Null before Ceph 20.
  ::ceph::tentacle::ErasureCodeInterface* tentacle() const { return tentacle_.get(); }
  /// All chunks.
  Chunks encode(const ceph::bufferlist& in) const;
  /// The lost chunks, out of all others.
  Chunks decode(const Chunks& all, const std::set<int>& lost) const;
  /// The chunks to read, by both functions, or -errno.
  std::pair<int, std::set<int>> reads(const std::set<int>& want, const std::set<int>& available) const;
  std::pair<int, std::set<int>> cheapest_reads(const std::set<int>& want,
                                               const std::map<int, int>& costs) const;

 private:
  ::ceph::ErasureCodeInterfaceRef classic_;
  ::ceph::tentacle::ErasureCodeInterfaceRef tentacle_;
};

}  // namespace ec::test
