// Who takes part in `ec_bench cpu`.
#pragma once

#include <string>
#include <vector>

#include "bench/common/measure.hpp"

namespace ec::bench {

/// Another build of Intel ISA-L, loaded from a file.
struct LoadedIsal {
  /// Throws std::runtime_error if the file cannot be loaded or lacks what is needed.
  explicit LoadedIsal(const std::string& file);

  std::string name;  ///< "isal:" and the name of the file
  void (*init_tables)(int, int, unsigned char*, unsigned char*);
  void (*encode_data)(int, int, int, unsigned char*, unsigned char**, unsigned char**);
};

/// Every walk of the memory bound, every x86 variant that this CPU has, the linked isal, and every loaded
/// one, on chunks with `gap` bytes between them. Operations: encode; decode (the plan is known). Of back ends
/// of this build only: decode-new (each call solves its signature, expands the matrix and forgets both);
/// decode-miss (each call asks the code for the plan of a signature that it never saw, and that takes the
/// place of another, for the cache is full). Chunks must be multiples of 64 bytes. stripes: how many.
std::vector<Contestant> coding_contestants(const Case& c, std::size_t stripes, std::size_t gap,
                                           const std::vector<LoadedIsal>& loaded);

/// What it costs to find out how the first `erasures` data chunks are made of the survivors, without any
/// chunk: "plan", ours, which solves for the lost chunks alone; "isal", whose gf_invert_matrix inverts the
/// survivors' k rows of the generator. Each is verified against the other.
std::vector<Contestant> solving_contestants(const Case& c);

/// Whether a contestant of that name only moves bytes.
inline bool is_bound(std::string_view contestant) { return contestant.starts_with("limit: "); }

}  // namespace ec::bench
