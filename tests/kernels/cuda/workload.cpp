// The work of one life of a device, and what becomes of it.
#include "tests/kernels/cuda/workload.hpp"

#include <array>
#include <thread>

#include "kernels/backends.hpp"
#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device/devices.hpp"
#include "plugin/codec/checking/validator.hpp"

namespace ec::test {
namespace {

using kernels::Residence;
using kernels::Status;
using kernels::cuda::KernelKind;

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
  Status wait() {
    const kernels::cuda::Device::Scope scope(*device_);
    const auto end = std::chrono::steady_clock::now() + device_->options().deadline;
    for (;;) {
      const CUresult answer = device_->driver().stream_query(stream_);
      if (answer == CUDA_SUCCESS) return Status::ok;
      if (answer != CUDA_ERROR_NOT_READY) return Status::fault;
      hung_ = std::chrono::steady_clock::now() > end;
      if (hung_) return Status::hung;
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
  explicit Backends(KernelKind kind) : list{&kernels::cuda::backend(kind), kernels::backends().back()} {}
  std::array<kernels::Backend*, 2> list;
  codec::Stats counts;
  codec::Validator validator{{.every = 1, .whole = true}};
  codec::Router router{codec::BackendChoice::gpu, 0, list, counts, validator};
};

}  // namespace

const Seen& Workload::run() {
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

/// On stripes that were coded right: the device finds no difference.
void Workload::compare(PlacedStripes& stripes) {
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

unsigned Workload::changed() const {
  unsigned sum = 0;
  for (const PlacedStripes* stripes : right_)
    sum += stripes->shape().targets != Residence::device && !*stripes->right();
  return sum;
}

void Workload::judge(const Job& job, Status status, const PlacedStripes& stripes) {
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

Status Workload::start(const Job& job, const codec::Router& router, std::span<const kernels::Job> jobs) {
  if (job.on_stream) {
    OwnStream stream;
    if (stream.get() == nullptr) return Status::fault;
    const Status status = router.enqueue(jobs, stream.get());
    return status == Status::ok ? stream.wait() : status;
  }
  if (jobs.size() > 1) return router.transform_all(jobs);
  return job.verb == Verb::accumulate ? router.accumulate(jobs[0]) : router.transform(jobs[0]);
}

void Workload::job(const Job& job) {
  PlacedStripes& stripes =
      stripes_.emplace_back(PlacedStripes::Shape{job.bytes, job.residence, job.residence, job.verb,
                                                 job.stripes, job.kind == KernelKind::generated},
                            ++seed_);
  if (!stripes) {
    ++seen_.device_failed;
    return;
  }
  // What is asked on machines with several GPUs.
  if (const auto device = kernels::cuda::Devices::instance().current())
    (void)device->holder_of(stripes.jobs()[0].sources[0].data);

  Backends backends(job.kind);
  const auto begin = std::chrono::steady_clock::now();
  const Status status = start(job, backends.router, stripes.jobs());
  seen_.longest = std::max(seen_.longest, std::chrono::duration_cast<std::chrono::milliseconds>(
                                              std::chrono::steady_clock::now() - begin));
  seen_.on_device += backends.counts.read(0).calls;
  seen_.fell_back += backends.counts.read(0).fallbacks;
  seen_.found_wrong += static_cast<unsigned>(backends.validator.read(0).mismatches);
  seen_.unchecked += static_cast<unsigned>(backends.validator.read(0).unchecked);
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

}  // namespace ec::test
