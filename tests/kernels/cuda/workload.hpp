// One life of a device, with everything that is asked of it in between, every result checked: what the tests
// of faults put their faults into.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "kernels/cuda/kernels/launches.hpp"
#include "plugin/codec/codec.hpp"
#include "plugin/codec/stats/stats.hpp"
#include "tests/kernels/cuda/placed_stripes.hpp"

namespace ec::test {

/// What a run saw. A job is one of host memory (pageable, pinned) unless it is said to be the device's.
struct Seen {
  unsigned on_device = 0;      ///< finished by a device
  unsigned fell_back = 0;      ///< counted as fall-backs
  unsigned failed = 0;         ///< jobs whose status was not ok, nor hung where that may be
  unsigned wrong = 0;          ///< ok with wrong bytes
  unsigned found_wrong = 0;    ///< results of a device that validation found wrong
  unsigned unchecked = 0;      ///< jobs that could not be validated, because the device failed at that
  unsigned hung = 0;           ///< said to be hung; done again in pageable memory, as the hosts do
  unsigned device_failed = 0;  ///< device's jobs that were answered with a fault, or found no device
  unsigned device_wrong = 0;   ///< device's jobs that were ok with wrong bytes
  unsigned stream_wrong = 0;   ///< the same on a stream, which nobody validates
  std::chrono::milliseconds longest{0};  ///< job
  std::string first_bad;                 ///< the first job that counts as failed, wrong or device_wrong
};

class Workload {
 public:
  /// For the fast kernels, and a rest for the tile kernel.
  static constexpr std::size_t chunk_bytes = 4096 + 48;
  /// Of one job in pageable memory, in several slices of a lane's part of so much staging memory.
  static constexpr std::size_t sliced_chunk_bytes = 4 * 4096 + 48;
  static constexpr std::size_t staging_bytes = 1024 * 1024;

  /// seed: of data and matrices.
  explicit Workload(std::uint64_t seed) : seed_(seed) {}

  /// Every kind of kernel on pageable, pinned and device memory; many stripes at once; work on a stream. The
  /// device is to be up, or coming.
  const Seen& run();

  /// Looks at the memory of the jobs that were right once more: how many results have changed since.
  unsigned changed() const;

 private:
  struct Job {
    const char* name;
    kernels::cuda::KernelKind kind;
    kernels::Residence residence;
    Verb verb = Verb::transform;
    std::size_t stripes = 1;
    bool on_stream = false;
    std::size_t bytes = chunk_bytes;
  };
  void job(const Job& job);
  static kernels::Status start(const Job& job, const codec::Router& router,
                               std::span<const kernels::Job> jobs);
  void compare(PlacedStripes& stripes);
  void judge(const Job& job, kernels::Status status, const PlacedStripes& stripes);

  std::uint64_t seed_;
  Seen seen_;
  std::deque<PlacedStripes> stripes_;
  std::vector<const PlacedStripes*> right_;
};

}  // namespace ec::test
