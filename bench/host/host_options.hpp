// The command line of `ec_bench host`, and the cases behind the claims about the host road.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "bench/host/processes.hpp"
#include "gf/generator.hpp"
#include "kernels/region.hpp"

namespace ec::bench {

/// Who codes: the codec with a back end forced (cuda, x86, isal) or not (auto), called by so many threads.
struct HostEntrant {
  std::string backend;
  unsigned threads = 1;
  bool operator==(const HostEntrant&) const = default;
};

/// One line-up: every entrant makes the same calls on stripes of the same pool.
struct HostCase {
  std::string op;  ///< encode, decode-1 (the first data chunk is lost), decode-m (the first m are)
  gf::Technique technique = gf::Technique::reed_sol_van;
  unsigned k = 0;
  unsigned m = 0;
  std::size_t chunk_bytes = 0;
  kernels::Residence residence = kernels::Residence::pinned;
  std::vector<HostEntrant> entrants{};
  bool fresh_ceiling = false;  ///< measured in the rounds of this case, not once for all of its mix
  bool judges_router = false;  ///< a point of the grid on which auto is set against the forced back ends

  bool decodes() const { return op != "encode"; }
  unsigned targets() const { return op == "decode-1" ? 1 : m; }
  /// Decode writes beside the stripe.
  unsigned chunks() const { return k + m + (decodes() ? targets() : 0); }
  std::size_t source_bytes() const { return k * chunk_bytes; }
  std::size_t stripe_bytes() const { return chunks() * chunk_bytes; }
};

/// Of each thread of `auto`, which learns, before it is timed, however long they take.
inline constexpr std::size_t fewest_lessons = 16;

struct HostOptions {
  std::string help;
  std::vector<HostCase> cases;
  unsigned rounds = 1;
  double sample_seconds = 0;      ///< at least
  double learn_seconds = 0;       ///< that `auto` codes before it is timed; 0: not at all
  double case_seconds = 0;        ///< no further round after this time, once there are three
  std::size_t turns = 1;          ///< stripes of its own that a thread codes one after the other, at most
  std::size_t link_bytes = 0;     ///< of a transfer that measures the link
  std::size_t largest_bytes = 0;  ///< of a case's stripes; entrants that need more are left out
  std::string json_file;
  unsigned processes = 1;  ///< that measure the same at once
  Membership member;       ///< what this one is of them; a member reports to the process that started it
};

/// Throws UsageError. Cases that several sections want are there once, with the entrants of all.
HostOptions parse_host_options(const std::vector<std::string>& arguments);

/// Threads that the machine runs at once.
unsigned all_cores();

}  // namespace ec::bench
