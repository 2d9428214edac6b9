// The command line of `ec_bench host`, and the cases behind the claims about calls on host memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/common/options.hpp"
#include "kernels/region.hpp"

namespace ec::bench {

/// Who codes: the codec with a back end forced (cuda, x86, isal) or not (auto), called by so many threads.
struct HostEntrant {
  std::string backend;
  unsigned threads = 1;
  bool operator==(const HostEntrant&) const = default;
};

/// One line-up: every entrant makes the same calls on stripes of the same memory.
struct HostCase {
  std::string op;  ///< encode, decode-1 (the first data chunk is lost), decode-m (the first m are)
  gf::Technique technique = gf::Technique::reed_sol_van;
  unsigned k = 0;
  unsigned m = 0;
  std::size_t chunk_bytes = 0;
  kernels::Residence residence = kernels::Residence::pinned;
  std::vector<HostEntrant> entrants{};
  bool judges_router = false;  ///< a point of the grid on which auto is set against the forced back ends

  unsigned targets() const { return op == "decode-1" ? 1 : m; }
  /// Decode writes beside the stripe.
  std::size_t stripe_bytes() const { return (k + m + (op == "encode" ? 0 : targets())) * chunk_bytes; }
  unsigned most_threads() const;
  std::string words() const;
};

struct HostOptions {
  std::vector<HostCase> cases;
  std::vector<std::string> left_out;  ///< entrants whose stripes would be too large, in words
  std::size_t rounds = 1;
  double sample_seconds = 0;
  double warm_seconds = 0;        ///< of calls of each entrant before it is timed
  double case_seconds = 0;        ///< no further round after this time, once there are three
  std::size_t link_bytes = 0;     ///< of a transfer that measures the link
  std::size_t largest_bytes = 0;  ///< of a case's stripes
  std::string json_file;
  unsigned processes = 1;  ///< that measure the same at once
};

/// Stripes of its own that a thread codes one after the other, at most.
inline constexpr std::size_t most_turns = 16;

CommandLine host_command_line();
/// Throws UsageError. Cases that several sections want are there once, with the entrants of all.
HostOptions host_options(const CommandLine& line);

}  // namespace ec::bench
