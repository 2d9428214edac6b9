// Who takes part in `ec_bench cpu`.
#pragma once

#include <string>
#include <vector>

#include "bench/common/measure.hpp"
#include "bench/common/options.hpp"

namespace ec::bench {

/// Bytes between the chunks of a stripe: none, or 17 cache lines, so that chunks of a power of two do not
/// share cache sets; or such that they begin anywhere.
struct Layout {
  const char* name;
  std::size_t gap;
};
inline constexpr Layout contiguous{"contiguous", 0};
inline constexpr Layout scattered{"scattered", 17 * 64};
inline constexpr Layout unaligned{"unaligned", 17 * 64 + 17};

struct CpuCase : Case {
  Layout layout = contiguous;
};

/// Another build of Intel ISA-L, loaded from a file.
struct LoadedIsal {
  std::string name;  ///< "isal:" and the name of the file
  void (*init_tables)(int, int, unsigned char*, unsigned char*);
  void (*encode_data)(int, int, int, unsigned char*, unsigned char**, unsigned char**);
};

/// Throws UsageError if the file cannot be loaded or lacks what is needed.
LoadedIsal load_isal(const std::string& file);

/// Who takes part: each is the name of a back end of this CPU, or "eccoder", the calls of libeccoder's C
/// interface.
std::vector<std::string> all_coders();

/// Every walk of the memory bound, those of `coders`, and every loaded ISA-L. Operations: encode; decode (the
/// plan is known). Of back ends of this build only: decode-miss (each call asks the code for the plan of a
/// signature that it never saw). stripes: how many.
std::vector<Contestant> coding_contestants(const CpuCase& c, std::size_t stripes,
                                           const std::vector<std::string>& coders,
                                           const std::vector<LoadedIsal>& loaded);

}  // namespace ec::bench
