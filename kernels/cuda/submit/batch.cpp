// Many jobs of one program and one length: waited for, or on a stream of the caller.
#include <algorithm>
#include <memory>
#include <new>
#include <optional>

#include "kernels/cuda/submit/device_job.hpp"

namespace ec::kernels::cuda {
namespace {

/// At a time. A driver whose queue is full keeps the caller of a launch, and no deadline ends that (H200:
/// 600 launches went into the queue, of 900 the last ones waited).
constexpr std::size_t most_launches = 256;

/// A view of jobs for which are_batch() holds. Launches need the device's context current.
class Batch {
 public:
  Batch(Device& device, std::span<const Job> jobs, KernelKind kind)
      : device_(device), jobs_(jobs), kind_(kind), over_link_(!std::ranges::all_of(jobs, on_device)) {}

  std::size_t count() const { return jobs_.size(); }
  /// The table of n stripes: for each the addresses of its sources, then of its targets.
  std::size_t table_bytes(std::size_t n) const { return n * width() * sizeof(void*); }
  void write_table(std::size_t first, std::size_t n, void* to) const {
    auto* at = static_cast<const void**>(to);
    for (const Job& job : jobs_.subspan(first, n)) {
      at = std::ranges::transform(job.sources, at, &Source::data).out;
      at = std::ranges::transform(job.targets, at, &Target::data).out;
    }
  }
  Submission submission(std::size_t n, Verb verb) const {
    const std::size_t bytes = n * jobs_.front().bytes;
    return {.link_bytes = bytes * link_chunks(jobs_.front()),
            .moved_bytes = bytes * width(),
            .writes_in_place = verb != Verb::compare};
  }

  /// The kernel generated for this code, if there is one and it takes many of the jobs at once; else null.
  const GeneratedKernel* generated() const {
    if (kind_ != KernelKind::automatic && kind_ != KernelKind::generated) return nullptr;
    const auto aligned = [](const auto& chunk) {
      return reinterpret_cast<std::uintptr_t>(chunk.data) % load_alignment == 0;
    };
    const std::size_t bytes = jobs_.front().bytes;
    if (bytes < generated_tile || bytes % load_alignment != 0 ||
        !std::ranges::all_of(jobs_, [&](const Job& job) { return all_chunks(job, aligned); }))
      return nullptr;
    return device_.generated_kernel(jobs_.front().program->matrix());
  }

  /// n stripes in one launch: `table` in device memory gets their addresses from `from`.
  Outcome launch_generated(const GeneratedKernel& kernel, CUdeviceptr table, const void* from, std::size_t n,
                           CUstream stream) const {
    const auto copied = device_.driver().memcpy_htod_async(table, from, table_bytes(n), stream);
    if (copied != CUDA_SUCCESS) return outcome_of("cuMemcpyHtoDAsync", copied);
    const Work each{device_,
                    jobs_.front().program->matrix(),
                    {{}, {}, jobs_.front().bytes, link_jobs()},
                    Verb::transform,
                    stream};
    return outcome_of("cuLaunchKernel", cuda::launch_generated(each, kernel, table, n));
  }

  /// Stripes that launch_each() may launch at a time. The widest codes take a launch for every four rows by
  /// tables, and for every seven rows of the rest by the tile kernels.
  std::size_t most_each() const { return most_launches / (2 + jobs_.front().targets.size() / 2); }

  /// A launch for each of n stripes, which may have different programs and lengths unless they are compared.
  /// difference: for Verb::compare.
  Outcome launch_each(std::size_t first, std::size_t n, Verb verb, CUstream stream,
                      unsigned long long* difference) const {
    std::uint64_t first_byte = first * jobs_.front().bytes;
    for (const Job& job : jobs_.subspan(first, n)) {
      if (job.bytes == 0 || job.targets.empty()) continue;
      Addresses chunks(job);
      const ChunkViews views{chunks.sources(), chunks.targets(), job.bytes, link_jobs(), 0,
                             difference,       first_byte};
      first_byte += job.bytes;
      const auto r = launch_stripe({device_, job.program->matrix(), views, verb, stream}, kind_);
      if (r != CUDA_SUCCESS) return outcome_of("cuLaunchKernel", r);
    }
    return {};
  }

 private:
  /// Chunks of a stripe.
  std::size_t width() const { return jobs_.front().sources.size() + jobs_.front().targets.size(); }
  /// Work on a stream of the caller does not count as work in flight.
  std::size_t link_jobs() const {
    return over_link_ ? std::max<std::size_t>(device_.link_clock().jobs(), 1) : 0;
  }

  Device& device_;
  const std::span<const Job> jobs_;
  const KernelKind kind_;
  const bool over_link_;
};

/// Batches by one launch on a stream of the caller. Nothing if that is not possible: nothing was enqueued.
std::optional<Outcome> enqueue_at_once(Device& device, const Batch& batch, CUstream stream) {
  const GeneratedKernel* const kernel = batch.generated();
  if (kernel == nullptr) return std::nullopt;
  const Driver& driver = device.driver();
  const std::size_t bytes = batch.table_bytes(batch.count());
  const std::unique_ptr<const void*[]> addresses(new (std::nothrow) const void*[bytes / sizeof(void*)]);
  if (!addresses) return std::nullopt;
  batch.write_table(0, batch.count(), addresses.get());
  CUdeviceptr table = 0;
  // In the order of the stream: this call waits for nothing.
  if (driver.mem_alloc_async(&table, bytes, stream) != CUDA_SUCCESS) return std::nullopt;
  // The driver copies ordinary memory before it returns.
  const Outcome outcome = batch.launch_generated(*kernel, table, addresses.get(), batch.count(), stream);
  const auto freed = driver.mem_free_async(table, stream);
  return outcome.status == Status::ok ? outcome_of("cuMemFreeAsync", freed) : outcome;
}

}  // namespace

bool are_batch(std::span<const Job> jobs) {
  return jobs.size() > 1 && std::ranges::all_of(jobs, [&](const Job& job) {
           return job.program == jobs.front().program && job.bytes == jobs.front().bytes && in_place(job);
         });
}

Outcome run_batch(Device& device, std::span<const Job> jobs, Verb verb, KernelKind kind,
                  unsigned long long* difference) noexcept {
  const Batch batch(device, jobs, kind);
  Runner runner(device);
  if (!runner.ok()) return runner.outcome();
  const Device::Lane& lane = runner.lane();
  const GeneratedKernel* const kernel = verb == Verb::transform ? batch.generated() : nullptr;
  const std::size_t most = kernel == nullptr
                               ? batch.most_each()
                               : std::min(Device::Lane::table_bytes, lane.slab.size()) / batch.table_bytes(1);
  for (std::size_t first = 0; first < batch.count() && runner.ok(); first += most) {
    const std::size_t n = std::min(most, batch.count() - first);
    const bool done = runner.run(batch.submission(n, verb), [&](CUstream stream) {
      if (kernel == nullptr)
        return noting_difference(device, lane, verb, [&](unsigned long long* word) {
          return batch.launch_each(first, n, verb, stream, word);
        });
      batch.write_table(first, n, lane.slab.data());
      return batch.launch_generated(*kernel, lane.table, lane.slab.data(), n, stream);
    });
    if (done && verb == Verb::compare && (*difference = difference_on(lane)) != no_difference) break;
  }
  return runner.outcome();
}

Outcome enqueue(Device& device, std::span<const Job> jobs, Verb verb, KernelKind kind, CUstream stream,
                unsigned long long* difference) noexcept {
  const Device::Scope scope(device);
  if (scope.result() != CUDA_SUCCESS) return outcome_of("cuCtxPushCurrent", scope.result());
  device.lend_kernels();
  const Driver& driver = device.driver();
  const Batch batch(device, jobs, kind);
  if (verb == Verb::compare) {
    const auto word = reinterpret_cast<CUdeviceptr>(difference);
    if (const auto r = driver.memset_d8_async(word, 0xff, sizeof *difference, stream); r != CUDA_SUCCESS)
      return outcome_of("cuMemsetD8Async", r);
  }
  if (verb == Verb::transform && are_batch(jobs)) {
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    if (const auto r = driver.stream_is_capturing(stream, &capture); r != CUDA_SUCCESS)
      return outcome_of("cuStreamIsCapturing", r);
    if (capture == CU_STREAM_CAPTURE_STATUS_NONE)
      if (const auto outcome = enqueue_at_once(device, batch, stream)) return *outcome;
  }
  return batch.launch_each(0, batch.count(), verb, stream, difference);
}

Outcome run_compare(Device& device, std::span<const Job> jobs, KernelKind kind,
                    unsigned long long* difference) noexcept {
  *difference = no_difference;
  if (std::ranges::all_of(jobs, in_place)) return run_batch(device, jobs, Verb::compare, kind, difference);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto outcome = run_job(device, jobs[i], Verb::compare, kind, difference, i * jobs[i].bytes);
    if (outcome.status != Status::ok || *difference != no_difference) return outcome;
  }
  return {};
}

}  // namespace ec::kernels::cuda
