// Many jobs of one program and one length: waited for, or on a stream of the caller.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cuda/submit/device_job.hpp"

namespace ec::kernels::cuda {
namespace {

/// A view of jobs for which are_batch() holds, or of one job. Launches need the device's context current.
class Batch {
 public:
  Batch(const std::shared_ptr<Device>& device, std::span<const Job> jobs, const KernelChoice& choice)
      : device_(device), jobs_(jobs), choice_(choice) {
    addresses_.reserve(jobs.size() * width());
    for (const Job& job : jobs) {
      over_link_ = over_link_ || !on_device(job);
      // The table has one type; kernels do not write sources.
      for (const Source& s : job.sources) addresses_.push_back(const_cast<std::uint8_t*>(s.data));
      for (const Target& t : job.targets) addresses_.push_back(t.data);
    }
  }

  std::size_t count() const { return jobs_.size(); }
  /// Chunks of a stripe.
  std::size_t width() const { return jobs_.front().sources.size() + jobs_.front().targets.size(); }
  /// Of stripes first .. first + n - 1: of each the addresses of its sources, then of its targets.
  std::span<std::uint8_t* const> table(std::size_t first, std::size_t n) const {
    return std::span(addresses_).subspan(first * width(), n * width());
  }
  Submission submission(std::size_t n) const {
    const std::size_t bytes = n * jobs_.front().bytes;
    return {.link_bytes = bytes * link_chunks(jobs_.front()),
            .moved_bytes = bytes * width(),
            .writes_in_place = true};
  }

  /// The kernel generated for many stripes, if it is there and takes these.
  CUfunction generated() const {
    const auto aligned = [](const std::uint8_t* p) {
      return reinterpret_cast<std::uintptr_t>(p) % load_alignment == 0;
    };
    const std::size_t bytes = jobs_.front().bytes;
    if (bytes < warp_tile || !std::ranges::all_of(addresses_, aligned)) return nullptr;
    return generated_for(device_, *jobs_.front().program, ProgramForm::batch,
                         count() * jobs_.front().sources.size() * bytes, choice_);
  }

  /// n stripes from `first` on in one launch: `table` in device memory gets table(first, n) from `from`.
  Outcome launch_generated(CUfunction function, CUdeviceptr table, const void* from, std::size_t n,
                           CUstream stream) const {
    const Driver& driver = device_->driver();
    const auto copied = driver.memcpy_htod_async(table, from, n * width() * sizeof(void*), stream);
    if (copied != CUDA_SUCCESS) return outcome_of(driver, "cuMemcpyHtoDAsync", copied);
    const ChunkViews each{{}, {}, jobs_.front().bytes, link_jobs()};
    const auto launched = launch_generated_batch(*device_, function, table, each, n, stream);
    return outcome_of(driver, "cuLaunchKernel", launched);
  }

  /// A launch for each stripe.
  Outcome launch_each(CUstream stream) const {
    const std::size_t sources = jobs_.front().sources.size();
    for (std::size_t i = 0; i < count(); ++i) {
      const auto chunks = table(i, 1);
      const ChunkViews views{{chunks.data(), sources}, chunks.subspan(sources), jobs_[i].bytes, link_jobs()};
      const auto r = launch_stripe(device_, *jobs_[i].program, views, Verb::transform, choice_, stream);
      if (r != CUDA_SUCCESS) return outcome_of(device_->driver(), "cuLaunchKernel", r);
    }
    return {};
  }

 private:
  /// Work on a stream of the caller is not among those in flight.
  std::size_t link_jobs() const {
    return over_link_ ? std::max<std::size_t>(device_->link_clock().jobs(), 1) : 0;
  }

  const std::shared_ptr<Device>& device_;
  const std::span<const Job> jobs_;
  const KernelChoice choice_;
  std::vector<std::uint8_t*> addresses_;
  bool over_link_ = false;
};

/// Batches by one launch on a stream of the caller. False if that is not to be, and nothing was enqueued.
bool enqueue_at_once(Device& device, const Batch& batch, CUstream stream, Outcome* outcome) {
  const CUfunction function = batch.generated();
  if (function == nullptr) return false;
  const Driver& driver = device.driver();
  const auto addresses = batch.table(0, batch.count());
  CUdeviceptr table = 0;
  // In the order of the stream: it waits for nothing.
  if (driver.mem_alloc_async(&table, addresses.size_bytes(), stream) != CUDA_SUCCESS) return false;
  // Out of ordinary memory the driver takes a copy before it returns.
  *outcome = batch.launch_generated(function, table, addresses.data(), batch.count(), stream);
  const auto freed = driver.mem_free_async(table, stream);
  if (outcome->status == Status::ok) *outcome = outcome_of(driver, "cuMemFreeAsync", freed);
  return true;
}

}  // namespace

bool are_batch(std::span<const Job> jobs) {
  return jobs.size() > 1 && std::ranges::all_of(jobs, [&](const Job& job) {
           return job.program == jobs.front().program && job.bytes == jobs.front().bytes && in_place(job);
         });
}

Outcome run_batch(const std::shared_ptr<Device>& device, std::span<const Job> jobs, KernelKind kind) {
  const Batch batch(device, jobs, {kind});
  Runner runner(*device);
  if (!runner.ok()) return runner.outcome();
  const CUfunction function = batch.generated();
  if (function == nullptr) {
    runner.run(batch.submission(batch.count()), [&](CUstream stream) { return batch.launch_each(stream); });
    return runner.outcome();
  }
  const Device::Lane& lane = runner.lane();
  const std::size_t most =
      std::min(Device::Lane::table_bytes, lane.slab.size()) / sizeof(void*) / batch.width();
  for (std::size_t first = 0; first < batch.count() && runner.ok(); first += most) {
    const std::size_t n = std::min(most, batch.count() - first);
    runner.run(batch.submission(n), [&](CUstream stream) {
      const auto table = batch.table(first, n);
      std::memcpy(lane.slab.data(), table.data(), table.size_bytes());
      return batch.launch_generated(function, lane.table, lane.slab.data(), n, stream);
    });
  }
  return runner.outcome();
}

Outcome enqueue(const std::shared_ptr<Device>& device, std::span<const Job> jobs, KernelKind kind,
                CUstream stream) {
  const Driver& driver = device->driver();
  const Device::Scope scope(*device);
  if (scope.result() != CUDA_SUCCESS) return outcome_of(driver, "cuCtxPushCurrent", scope.result());
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  if (const auto r = driver.stream_is_capturing(stream, &capture); r != CUDA_SUCCESS)
    return outcome_of(driver, "cuStreamIsCapturing", r);
  const bool captured = capture != CU_STREAM_CAPTURE_STATUS_NONE;
  using Wish = GeneratedProgram::Wish;
  const KernelChoice choice{kind, captured ? Wish::never : Wish::later};
  Outcome outcome;
  if (!captured && are_batch(jobs) && enqueue_at_once(*device, {device, jobs, choice}, stream, &outcome))
    return outcome;
  for (std::size_t i = 0; i < jobs.size() && outcome.status == Status::ok; ++i)
    if (jobs[i].bytes != 0 && !jobs[i].targets.empty())
      outcome = Batch(device, jobs.subspan(i, 1), choice).launch_each(stream);
  return outcome;
}

}  // namespace ec::kernels::cuda
