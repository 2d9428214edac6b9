// `ec_bench codec` and `ec_bench ceph`: every combination of operations, shapes, sizes and threads, with the
// contestants that the command line names.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/common/measure.hpp"
#include "bench/common/options.hpp"

namespace ec::bench {

/// One line-up: every contestant does exactly this.
struct Case {
  std::string op;
  gf::Technique technique = gf::Technique::reed_sol_van;
  unsigned k = 0;
  unsigned m = 0;
  unsigned erasures = 0;         ///< chunks lost; 0 where the operation loses none
  std::size_t object_bytes = 0;  ///< of one stripe, before padding
  std::size_t chunk_bytes = 0;
  unsigned threads = 1;  ///< each coding stripes of its own
};

struct SweepContestant {
  Contestant contestant;
  std::string path;  ///< where its chunks lie: pageable, pinned, device
};

/// What a sub-command adds.
struct Sweep {
  std::string name;
  std::string contestants_option;  ///< "backend", "plugin"
  std::string contestants_default;
  std::string contestants_help;
  std::vector<std::string> ops;
  std::vector<std::string> baselines;  ///< ratios refer to the last contestant of such a name
  std::string host_version;
  /// The contestants of these names for a case, on the same stripes, one for each thread. Throws UsageError.
  std::function<std::vector<SweepContestant>(const std::vector<std::string>& names, const Case&)> line_up;
};

/// From the command line to the report. Exit status: 0, 1 if a contestant made wrong bytes or failed, 2 for a
/// command line that cannot be used. arguments: those after the name of the sub-command.
int run_sweep(const Sweep& sweep, const std::vector<std::string>& arguments);

}  // namespace ec::bench
