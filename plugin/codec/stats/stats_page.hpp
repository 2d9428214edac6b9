// The counts of a process, as one block of plain numbers: it lies in shared memory without a name, which
// other programs find as /proc/PID/fd/N -> "/memfd:ec_cuda_stats (deleted)" and read while the process runs.
// No trace is left when the process ends, and no work of the process depends on the block's content.
#pragma once

#include <fcntl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>

#include "ec_cuda_pinned.h"
#include "kernels/backend.hpp"
#include "kernels/device_stats.hpp"

namespace ec::codec {

/// The operation that a host asked for.
enum class Operation : unsigned char { encode, decode, update };
inline constexpr std::size_t operations = 3;
constexpr std::string_view name(Operation o) {
  constexpr std::string_view names[] = {"encode", "decode", "update"};
  return names[static_cast<std::size_t>(o)];
}

/// Events, counted.
enum class Event : unsigned char {
  plan_found,      ///< a decode plan that was known
  plan_solved,     ///< a decode plan that had to be made
  bytes_given_up,  ///< bytes of buffers made for a host, which a GPU that stopped answering may still write
  isa_code,        ///< a code made under our own name for a pool that Ceph's own isa could serve, too
  jerasure_code,   ///< the same for a pool that Ceph's jerasure could serve
  own_code,        ///< the same for a pool that neither could serve
};
inline constexpr std::size_t max_events = 16;

inline constexpr std::size_t max_backends = 8;

/// Why a back end did not finish a job: a kernels::Status, less ok.
inline constexpr std::size_t causes = 4;
constexpr std::size_t cause_of(kernels::Status status) { return static_cast<std::size_t>(status) - 1; }
constexpr std::string_view cause_name(std::size_t cause) {
  return kernels::name(static_cast<kernels::Status>(cause + 1));
}

/// Jobs that were timed: bucket i holds the jobs of at most bound(i) that the buckets below do not; the last
/// bucket holds the rest.
struct Durations {
  static constexpr std::size_t buckets = 24;
  /// Nanoseconds: an eighth of a microsecond, twice that, and so on to half a second.
  static constexpr std::uint64_t bound(std::size_t bucket) { return std::uint64_t{125} << bucket; }
  std::uint64_t nanoseconds = 0;
  std::array<std::uint64_t, buckets> jobs{};
};

/// Jobs are all timed from this many source bytes on, below it one in a few of each thread: reading the clock
/// twice takes 50 ns, and a small job 150. One in a few is no power of two, since the jobs of a large object
/// are a power of two, and always the same job would be timed.
inline constexpr std::uint64_t timed_from_bytes = std::uint64_t{256} << 10;
inline constexpr unsigned small_jobs_a_timed_one = 61;

/// The counts of one back end and operation. The counts of every call are in one line of the cache.
struct alignas(64) Row {
  std::uint64_t calls = 0;                        ///< jobs finished by this back end
  std::uint64_t source_bytes = 0;                 ///< sources x chunk bytes of these jobs
  std::array<std::uint64_t, causes> fallbacks{};  ///< jobs given to this back end and not finished, by cause
  alignas(64) Durations small;                    ///< of finished jobs below timed_from_bytes
  Durations large;

  /// Jobs that this back end took and did not finish.
  std::uint64_t fell_back() const {
    return std::accumulate(fallbacks.begin() + cause_of(kernels::Status::busy), fallbacks.end(),
                           std::uint64_t{0});
  }
};

/// Threads count in different shards, or the cache lines of these counts would travel between cores at every
/// small call. The first threads of a process have one each, for good; later threads share the rest.
struct Shard {
  std::array<std::array<Row, operations>, max_backends> rows;
  alignas(64) std::array<std::uint64_t, max_events> events{};

  const Row& row(std::size_t backend, Operation o) const {
    return rows[backend][static_cast<std::size_t>(o)];
  }
  /// All operations of a back end together, without their times.
  Row all(std::size_t backend) const {
    Row sum;
    for (const Row& row : rows[backend]) {
      sum.calls += row.calls;
      sum.source_bytes += row.source_bytes;
      for (std::size_t cause = 0; cause < causes; ++cause) sum.fallbacks[cause] += row.fallbacks[cause];
    }
    return sum;
  }
  std::uint64_t times(Event e) const { return events[static_cast<std::size_t>(e)]; }
};
inline constexpr unsigned own_shards = 32, shared_shards = 8;

/// The results of validation for one back end.
struct CheckCounts {
  std::uint64_t checked = 0;     ///< jobs that were compared
  std::uint64_t mismatches = 0;  ///< compared jobs that were wrong
  std::uint64_t unchecked = 0;   ///< jobs that were due and could not be compared
};

/// Changes with every change of the page below or of its parts.
inline constexpr std::uint32_t stats_layout = 9;
inline constexpr std::array<char, 8> stats_magic{'e', 'c', '_', 's', 't', 'a', 't', 's'};

struct StatsPage {
  std::array<char, 8> magic{};
  std::uint32_t layout = 0;
  std::uint32_t bytes = 0;  ///< length of the whole page
  std::int64_t pid = 0;
  std::uint64_t since = 0;  ///< seconds since 1970 when it began to count
  std::array<char, 16> version{};
  std::array<std::array<char, 16>, max_backends>
      backends{};  ///< names, in the order of the rows; empty: none
  std::array<char, 16> interface {
  };  ///< the host's interface in use; empty: none; "stock": all calls go to Ceph's file
  std::array<Shard, own_shards + shared_shards> shards;
  alignas(64) std::array<CheckCounts, max_backends> checks{};
  alignas(64) std::uint64_t jobs_on_device = 0;  ///< a copy: under way there now
  alignas(64) kernels::DeviceStats device;
  ec_cuda_pinned_stats arena{};  ///< as of the last timed job, at most one look a second
};

/// All shards together.
Shard sum(const StatsPage& page) noexcept;

inline constexpr const char* stats_file_name = "ec_cuda_stats";
/// The least seals of the page's file. Where the kernel can (Linux 5.1), it is also sealed against writing by
/// processes that open it.
inline constexpr int stats_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace ec::codec
