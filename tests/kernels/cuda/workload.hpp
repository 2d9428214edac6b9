// One life of a device, with everything that is asked of it in between, every result checked: what
// fault_sites_test.cpp puts its faults into.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "kernels/backends.hpp"
#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device/devices.hpp"
#include "plugin/codec/checking/validator.hpp"
#include "plugin/codec/codec.hpp"
#include "plugin/codec/stats/stats.hpp"
#include "tests/common/placed_stripes.hpp"

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

/// A stream of the program's own, if the device is up.
class OwnStream {
 public:
  OwnStream() : device_(kernels::cuda::Devices::instance().current()) {
    if (!device_) return;
    const kernels::cuda::Device::Scope scope(*device_);
    if (device_->driver().stream_create(&stream_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) stream_ = nullptr;
  }
  ~OwnStream() {
    if (stream_ == nullptr || hung_) return;
    const kernels::cuda::Device::Scope scope(*device_);
    device_->driver().stream_destroy(stream_);
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  CUstream get() const { return stream_; }

  /// Waits as a program does that has other things to do; what a program makes of an error is a fault.
  kernels::Status wait() {
    using enum kernels::Status;
    const kernels::cuda::Device::Scope scope(*device_);
    const auto end = std::chrono::steady_clock::now() + device_->options().deadline;
    for (;;) {
      const CUresult answer = device_->driver().stream_query(stream_);
      if (answer == CUDA_SUCCESS) return ok;
      if (answer != CUDA_ERROR_NOT_READY) return fault;
      hung_ = std::chrono::steady_clock::now() > end;
      if (hung_) return hung;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  std::shared_ptr<kernels::cuda::Device> device_;
  CUstream stream_ = nullptr;
  bool hung_ = false;
};

/// The one back end of this kind, then the CPU, which every result is compared with.
struct Backends {
  explicit Backends(kernels::cuda::KernelKind kind)
      : list{&kernels::cuda::backend(kind), kernels::backends().back()} {}
  std::array<kernels::Backend*, 2> list;
  codec::Stats counts;
  codec::Validator validator{{.every = 1, .whole = true}};
  codec::Router router{codec::BackendChoice::gpu, 0, list, counts, validator};
};

class Workload {
 public:
  using KernelKind = kernels::cuda::KernelKind;

  /// For the fast kernels, and a rest for the tile kernel.
  static constexpr std::size_t chunk_bytes = 4096 + 48;
  /// Of one job in pageable memory, in several slices of a lane's part of so much staging memory.
  static constexpr std::size_t sliced_chunk_bytes = 4 * 4096 + 48;
  static constexpr std::size_t staging_bytes = 1024 * 1024;

  /// seed: of data and matrices.
  explicit Workload(std::uint64_t seed) : seed_(seed) {}

  /// Every kind of kernel on pageable, pinned and device memory; many stripes at once; work on a stream. The
  /// device is to be up, or coming.
  const Seen& run() {
    using enum KernelKind;
    using enum Residence;
    constexpr Verb coded = Verb::transform, added = Verb::accumulate;
    for (const Job& each : std::initializer_list<Job>{
             {"tile kernel, pinned", tile, pinned},
             {"table kernel, pageable", table, pageable},
             {"bit kernel, pinned", bits, pinned},
             {"bit kernel, added", bits, pageable, added},
             {"best kernel, pageable, in slices", automatic, pageable, coded, 1, false, sliced_chunk_bytes},
             {"best kernel, added in slices", automatic, pageable, added, 1, false, sliced_chunk_bytes},
             {"generated kernel, pinned", generated, pinned},
             {"best kernel, pinned", automatic, pinned},
             {"best kernel, pinned, added", automatic, pinned, added},
             {"best kernel, on the device", automatic, device},
             {"best kernel, on the device, added", automatic, device, added},
             {"generated kernel, stripes on the device", generated, device, coded, 3},
             {"generated kernel, stripes, pinned", generated, pinned, coded, 3},
             {"best kernel, stripes, pinned", automatic, pinned, coded, 3},
             {"generated kernel, stripes on a stream", generated, device, coded, 3, true},
             {"best kernel, on a stream", automatic, device, coded, 1, true}})
      job(each);
    const auto coded_on_device = std::ranges::find_if(stripes_, [&](const PlacedStripes& stripes) {
      return stripes.shape().targets == device && stripes.shape().verb == coded &&
             std::ranges::count(right_, &stripes) != 0;
    });
    if (coded_on_device != stripes_.end()) compare(*coded_on_device);
    return seen_;
  }

  /// Looks at the memory of the jobs that were right once more: how many results have changed since.
  unsigned changed() const {
    unsigned sum = 0;
    for (const PlacedStripes* stripes : right_)
      sum += stripes->shape().targets != Residence::device && !*stripes->right();
    return sum;
  }

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

  /// On stripes that were coded right: the device finds no difference.
  void compare(PlacedStripes& stripes) {
    unsigned long long difference = 0;
    const Status status = kernels::cuda::backend().compare(stripes.jobs(), &difference, std::nullopt);
    if (status == Status::hung) {
      ++seen_.hung;
      stripes.abandon();
    } else if (status != Status::ok) {
      ++seen_.device_failed;
    } else if (difference != kernels::no_difference) {
      ++seen_.device_wrong;
      seen_.first_bad = "comparison";
    }
  }

  void judge(const Job& job, Status status, const PlacedStripes& stripes) {
    const bool device = job.residence == Residence::device;
    const auto right = status == Status::ok ? stripes.right() : std::nullopt;
    if (status != Status::ok)
      ++(device ? seen_.device_failed : seen_.failed);
    else if (right == false)
      ++(job.on_stream ? seen_.stream_wrong : device ? seen_.device_wrong : seen_.wrong);
    else if (right == true)
      right_.push_back(&stripes);
    const bool bad = right == false || (status != Status::ok && !device);
    if (bad && seen_.first_bad.empty())
      seen_.first_bad = std::string(job.name) + ": " + std::string(kernels::name(status));
  }

  static Status start(const Job& job, const codec::Router& router, std::span<const kernels::Job> jobs) {
    if (job.on_stream) {
      OwnStream stream;
      if (stream.get() == nullptr) return Status::fault;
      const Status status = router.enqueue(jobs, stream.get());
      return status == Status::ok ? stream.wait() : status;
    }
    if (jobs.size() > 1) return router.transform_all(jobs);
    return router.transform(jobs[0], operation_of(job.verb));
  }

  void job(const Job& job) {
    PlacedStripes& stripes =
        stripes_.emplace_back(PlacedStripes::Shape{job.bytes, job.residence, job.residence, job.verb,
                                                   job.stripes, job.kind == KernelKind::generated},
                              ++seed_);
    if (!stripes) {
      ++seen_.device_failed;
      return;
    }
    // What is asked on machines with several GPUs.
    if (const auto device = kernels::cuda::Devices::instance().current()) {
      const kernels::cuda::Device::Scope scope(*device);
      (void)device->holder_of(stripes.jobs()[0].sources[0].data);
    }

    Backends backends(job.kind);
    const auto begin = std::chrono::steady_clock::now();
    const Status status = start(job, backends.router, stripes.jobs());
    seen_.longest = std::max(seen_.longest, std::chrono::duration_cast<std::chrono::milliseconds>(
                                                std::chrono::steady_clock::now() - begin));
    seen_.on_device += codec::sum(backends.counts.page()).all(0).calls;
    seen_.fell_back += codec::sum(backends.counts.page()).all(0).fell_back();
    seen_.found_wrong += static_cast<unsigned>(backends.validator.counts()[0].mismatches);
    seen_.unchecked += static_cast<unsigned>(backends.validator.counts()[0].unchecked);
    if (status == Status::hung && job.residence != Residence::pageable) {
      ++seen_.hung;
      stripes.abandon();
      // As plugin/ceph does: once more, in memory that no device writes.
      if (job.residence == Residence::pinned && job.verb == Verb::transform)
        this->job({job.name, job.kind, Residence::pageable, job.verb, 1, false, job.bytes});
      return;
    }
    judge(job, status, stripes);
  }

  std::uint64_t seed_;
  Seen seen_;
  std::deque<PlacedStripes> stripes_;
  std::vector<const PlacedStripes*> right_;
};

}  // namespace ec::test
