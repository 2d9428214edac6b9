#include "kernels/cuda/submit/stream_job.hpp"

#include "kernels/cuda/submit/stripes.hpp"

namespace ec::kernels::cuda {
namespace {

/// As one launch; false if that is not to be, and nothing was enqueued. Otherwise *result is the outcome.
bool launch_at_once(const std::shared_ptr<Device>& device, const Stripes& stripes, const KernelChoice& choice,
                    CUstream stream, CUresult* result) {
  const CUfunction function = stripes.generated(device, choice);
  if (function == nullptr) return false;
  const Driver& driver = device->driver();
  const auto addresses = stripes.table(0, stripes.count());
  CUdeviceptr table = 0;
  if (driver.mem_alloc_async(&table, addresses.size_bytes(), stream) != CUDA_SUCCESS) return false;
  // Out of ordinary memory the driver takes a copy before it returns.
  *result = driver.memcpy_htod_async(table, addresses.data(), addresses.size_bytes(), stream);
  if (*result == CUDA_SUCCESS) *result = stripes.launch(*device, function, table, stripes.count(), stream);
  const auto freed = driver.mem_free_async(table, stream);
  if (*result == CUDA_SUCCESS) *result = freed;
  return true;
}

CUresult launch(const std::shared_ptr<Device>& device, std::span<const Job> jobs, const KernelChoice& choice,
                bool captured, CUstream stream) {
  CUresult result = CUDA_SUCCESS;
  if (!captured && are_stripes(jobs) && launch_at_once(device, Stripes(jobs), choice, stream, &result))
    return result;
  for (std::size_t i = 0; i < jobs.size() && result == CUDA_SUCCESS; ++i)
    if (jobs[i].bytes != 0 && !jobs[i].targets.empty())
      result = Stripes(jobs.subspan(i, 1)).launch_each(device, 0, 1, choice, stream);
  return result;
}

}  // namespace

Outcome enqueue(const std::shared_ptr<Device>& device, std::span<const Job> jobs, KernelKind kind,
                CUstream stream) {
  const Driver& driver = device->driver();
  const Device::Scope scope(*device);
  if (scope.result() != CUDA_SUCCESS) return fault(driver, "cuCtxPushCurrent", scope.result());
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  if (const auto r = driver.stream_is_capturing(stream, &capture); r != CUDA_SUCCESS)
    return fault(driver, "cuStreamIsCapturing", r);
  const bool captured = capture != CU_STREAM_CAPTURE_STATUS_NONE;
  using Wish = GeneratedProgram::Wish;
  const auto r = launch(device, jobs, {kind, captured ? Wish::never : Wish::later}, captured, stream);
  return r == CUDA_SUCCESS ? Outcome{} : fault(driver, "cuLaunchKernel", r);
}

}  // namespace ec::kernels::cuda
