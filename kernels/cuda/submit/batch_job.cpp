#include <algorithm>
#include <cstring>
#include <exception>

#include "kernels/cuda/device/stream_wait.hpp"
#include "kernels/cuda/submit/device_job.hpp"
#include "kernels/cuda/submit/stripes.hpp"

namespace ec::kernels::cuda {
namespace {

class BatchJob {
 public:
  BatchJob(const std::shared_ptr<Device>& device, std::span<const Job> jobs, KernelKind kind)
      : device_(device), stripes_(jobs), choice_{kind} {}

  Outcome run() {
    const Device::Scope scope(*device_);
    if (scope.result() != CUDA_SUCCESS) return fault(device_->driver(), "cuCtxPushCurrent", scope.result());
    auto lane = device_->borrow_lane();
    if (!lane) return {Status::busy, {}, false};
    const CUfunction function = prepare(*lane);
    const std::size_t most =
        function == nullptr ? stripes_.count() : Device::Lane::table_bytes / sizeof(void*) / stripes_.width();
    for (std::size_t first = 0; first < stripes_.count(); first += most) {
      const std::size_t count = std::min(most, stripes_.count() - first);
      LinkClock::Flight flight(device_->link_clock(), stripes_.link_bytes() * count / stripes_.count());
      const Outcome launched = launch(function, first, count, lane->stream());
      const Outcome waited =
          wait_for(*device_, *lane, flight, {.bytes = stripes_.bytes_moved(), .writes_in_place = true});
      if (waited.gave_up) staging_.quarantine();
      if (waited.status != Status::ok) return waited;
      if (launched.status != Status::ok) return launched;
    }
    return {};
  }

 private:
  /// The kernel for many stripes, with what its table needs; or null, and each stripe is a launch.
  CUfunction prepare(Device::Lane& lane) {
    const CUfunction function = stripes_.generated(device_, choice_);
    if (function == nullptr || lane.table(&table_) != CUDA_SUCCESS) return nullptr;
    const std::size_t needed = stripes_.table(0, stripes_.count()).size_bytes();
    staging_ = device_->pool().allocate(std::min(needed, Device::Lane::table_bytes));
    return staging_ ? function : nullptr;
  }

  /// What was launched before an error is to be waited for, so it throws nothing.
  Outcome launch(CUfunction function, std::size_t first, std::size_t count, CUstream stream) noexcept try {
    if (function == nullptr) {
      const auto r = stripes_.launch_each(device_, first, count, choice_, stream);
      return r == CUDA_SUCCESS ? Outcome{} : fault(device_->driver(), "cuLaunchKernel", r);
    }
    const auto part = stripes_.table(first, count);
    std::memcpy(staging_.data(), part.data(), part.size_bytes());
    if (const auto r =
            device_->driver().memcpy_htod_async(table_, staging_.data(), part.size_bytes(), stream);
        r != CUDA_SUCCESS)
      return fault(device_->driver(), "cuMemcpyHtoDAsync", r);
    const auto r = stripes_.launch(*device_, function, table_, count, stream);
    return r == CUDA_SUCCESS ? Outcome{} : fault(device_->driver(), "cuLaunchKernel", r);
  } catch (const std::exception&) {
    return {Status::busy, {}, false};
  }

  const std::shared_ptr<Device>& device_;
  const Stripes stripes_;
  const KernelChoice choice_;
  CUdeviceptr table_ = 0;
  PinnedBlock staging_;
};

}  // namespace

Outcome run_batch(const std::shared_ptr<Device>& device, std::span<const Job> jobs, KernelKind kind) {
  return BatchJob(device, jobs, kind).run();
}

}  // namespace ec::kernels::cuda
