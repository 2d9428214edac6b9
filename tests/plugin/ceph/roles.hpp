// Codes of our plugin and of Ceph's own in one process, each under any of these names, and what is needed to
// compare them.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ceph/tentacle.h"
#include "tests/host/plugin_host.hpp"

namespace ec::test {

using Profile = ::ceph::ErasureCodeProfile;
using Chunks = std::map<int, ::ceph::bufferlist>;

/// The seed of this run, that of EC_TEST_SEED where it is set; said on standard output.
std::uint64_t base_seed();

/// Random bytes and what is drawn from them; the seed is all that a draw depends on.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  /// Uniform in lowest..highest.
  std::uint64_t number(std::uint64_t lowest, std::uint64_t highest) {
    return std::uniform_int_distribution<std::uint64_t>(lowest, highest)(engine_);
  }
  /// 1..highest, as likely in each power of two.
  std::uint64_t length(std::uint64_t highest);
  /// `count` different members of `from`.
  std::set<int> subset(const std::set<int>& from, unsigned count);
  /// Random bytes in `pieces` buffers (at most one a byte), each starting and ending anywhere.
  ::ceph::bufferlist bytes(std::size_t length, unsigned pieces);
  /// A copy of `content` in such buffers.
  ::ceph::bufferlist in_pieces(std::string_view content, unsigned pieces);

 private:
  std::mt19937_64 engine_;
};

/// {0, .., count - 1}
std::set<int> first_chunks(unsigned count);
/// Members of `chunks` that are not in `lost`.
Chunks without(const Chunks& chunks, const std::set<int>& lost);
/// Empty if both hold every chunk in `wanted` with the same bytes, otherwise the first difference in words.
std::string difference(const Chunks& a, const Chunks& b, const std::set<int>& wanted);

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
Made make(const std::string& plugin, Profile profile, const std::string& folder = role_folder());
Profile profile_of(const std::string& technique, unsigned k, unsigned m);
/// The file whose code that object runs.
std::string file_of(const ::ceph::ErasureCodeInterfaceRef& code);

/// The functions of both interfaces that are called alike, and those that are not.
class Code {
 public:
  /// Throws std::runtime_error if there is none.
  explicit Code(Made made);
  /// Of Ceph 20's interface in any host.
  explicit Code(::ceph::tentacle::ErasureCodeInterfaceRef code) : tentacle_(std::move(code)) {}

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
  /// All that it says of its numbers, for a stripe of that width.
  std::vector<unsigned> sizes(unsigned width) const {
    return with([&](auto& code) {
      return std::vector{code.get_chunk_count(), code.get_data_chunk_count(), code.get_coding_chunk_count(),
                         static_cast<unsigned>(code.get_sub_chunk_count()), code.get_chunk_size(width)};
    });
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
                            tentacle_->get_optimizations_flags_string() + " " +
                            std::to_string(tentacle_->get_minimum_granularity());
  }
  /// Null before Ceph 20.
  ::ceph::tentacle::ErasureCodeInterface* tentacle() const { return tentacle_.get(); }
  /// All chunks.
  Chunks encode(const ::ceph::bufferlist& in) const;
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
