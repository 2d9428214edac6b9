// The calls of Ceph's interfaces that `ec_bench ceph` measures: stripes in Ceph's buffers, and plugins on
// them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/common/measure.hpp"
#include "bench/common/options.hpp"
#include "ceph/classic.h"

namespace ec::bench {

/// Operations are named for the function that is called. Of the functions on an object or on lists of
/// buffers, which every release has: encode; encode-chunks; decode (m data chunks are lost) and decode-one.
/// Of the functions on single buffers, which optimised pools of Ceph 20 call: encode-chunks;
/// encode-chunks-one (all data but one chunk is zero and not there); encode-delta; apply-delta; decode-chunks
/// (m lost) and decode-chunks-one.
std::vector<std::string> ops_of(bool tentacle);

struct CephCase : Case {
  std::size_t object_bytes = 0;  ///< of a stripe, before padding
  std::size_t turns = 1;         ///< stripes

  /// Data chunks, from the first on, that are lost.
  unsigned lost() const { return !op.starts_with("decode") ? 0 : op.ends_with("one") ? 1 : m; }
};

/// Whoever makes the calls of a case: its name, and its object for the code.
using Coder = std::pair<std::string, ::ceph::ErasureCodeInterfaceRef>;

/// The coders on the same stripes. tentacle: the objects are of Ceph 20.
std::vector<Contestant> ceph_contestants(const CephCase& c, const std::vector<Coder>& coders, bool tentacle);

}  // namespace ec::bench
