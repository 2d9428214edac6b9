// Jobs on one device: in place, through staging memory, many at once, and on a stream of the caller.
// Submitting allocates nothing and throws nothing: a status "busy, nothing was touched" for want of memory
// would be a lie as soon as a kernel is under way.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "gf/generator.hpp"
#include "kernels/backend.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/kernels/launches.hpp"
#include "kernels/cuda/submit/runner.hpp"

namespace ec::kernels::cuda {

/// Whether the device can address every chunk in place.
inline bool in_place(const Job& job) {
  return all_chunks(job, [](const auto& chunk) { return chunk.residence != Residence::pageable; });
}

/// Whether every chunk is in device memory.
inline bool on_device(const Job& job) {
  return all_chunks(job, [](const auto& chunk) { return chunk.residence == Residence::device; });
}

/// Chunks that go over the link to the host, in the busier direction.
inline std::size_t link_chunks(const Job& job) {
  const auto over_link = [](const auto& chunk) { return chunk.residence != Residence::device; };
  return static_cast<std::size_t>(
      std::max(std::ranges::count_if(job.sources, over_link), std::ranges::count_if(job.targets, over_link)));
}

/// The addresses of a job's chunks in the form that launches take.
class Addresses {
 public:
  explicit Addresses(const Job& job) noexcept
      : source_count_(job.sources.size()), target_count_(job.targets.size()) {
    std::ranges::transform(job.sources, sources_.begin(), &Source::data);
    std::ranges::transform(job.targets, targets_.begin(), &Target::data);
  }
  std::span<const std::uint8_t*> sources() noexcept { return std::span(sources_).first(source_count_); }
  std::span<std::uint8_t*> targets() noexcept { return std::span(targets_).first(target_count_); }

 private:
  const std::size_t source_count_, target_count_;
  std::array<const std::uint8_t*, gf::max_chunks> sources_;
  std::array<std::uint8_t*, gf::max_chunks> targets_;
};

/// Runs `job` to its end. The kernel reads and writes pinned and device chunks in place; pageable chunks are
/// copied through the slab of a lane: all at once where they fit, else in slices, each in one half while the
/// device works on the other. If a job of accumulate is host-addressable as a whole, its targets, pinned ones
/// too, are copied to the slab and back at the end, so that a fault leaves them unchanged. busy if the
/// targets do not fit, or if no lane is free. compare: *difference, which is ordinary memory, becomes no more
/// than first_byte plus the first byte that differs.
Outcome run_job(Device& device, const Job& job, Verb verb, KernelKind kind,
                unsigned long long* difference = nullptr, std::uint64_t first_byte = 0) noexcept;

/// A launch on a lane. launch(word) launches kernels, which note a difference in `word`: null, or, for
/// Verb::compare, a word of device memory. This word is cleared before and then copied to the end of the
/// slab, where difference_on() reads it.
Outcome noting_difference(const Device& device, const Device::Lane& lane, Verb verb, auto&& launch) noexcept {
  if (verb != Verb::compare) return launch(nullptr);
  const Driver& driver = device.driver();
  if (const auto r = driver.memset_d8_async(lane.table, 0xff, sizeof no_difference, lane.stream);
      r != CUDA_SUCCESS)
    return outcome_of("cuMemsetD8Async", r);
  const Outcome launched = launch(reinterpret_cast<unsigned long long*>(lane.table));
  if (launched.status != Status::ok) return launched;
  const auto last = lane.slab.last(sizeof no_difference);
  return outcome_of("cuMemcpyDtoHAsync",
                    driver.memcpy_dtoh_async(last.data(), lane.table, last.size(), lane.stream));
}
inline unsigned long long difference_on(const Device::Lane& lane) noexcept {
  unsigned long long difference = no_difference;
  std::memcpy(&difference, lane.slab.last(sizeof difference).data(), sizeof difference);
  return difference;
}

/// Whether the jobs can be one for run_batch(): more than one, of one program and one length, and none with a
/// pageable chunk.
bool are_batch(std::span<const Job> jobs);

/// The verb, transform or compare, for each job, where are_batch() holds, or there is one: a transform as one
/// launch if the kernel generated for many stripes is there and takes the jobs, else as a launch for each,
/// with a wait after every some hundred launches; a comparison ends where a difference is found. busy if no
/// lane is free. On a fault any of the targets hold anything. difference: as for Backend::compare.
Outcome run_batch(Device& device, std::span<const Job> jobs, Verb verb, KernelKind kind,
                  unsigned long long* difference = nullptr) noexcept;

/// Enqueues the verb for each job on `stream` and does not wait; no chunk is pageable. Transforms of one
/// program and one length go as one launch where run_batch() would use one, through a table that is allocated
/// and freed in the order of the stream; while the stream is captured, and on drivers that cannot, as a
/// launch for each. On a fault some of the work may be enqueued. difference: as for Backend::compare.
Outcome enqueue(Device& device, std::span<const Job> jobs, Verb verb, KernelKind kind, CUstream stream,
                unsigned long long* difference) noexcept;

/// See Backend::compare: by run_batch() where no job has a pageable chunk.
Outcome run_compare(Device& device, std::span<const Job> jobs, KernelKind kind,
                    unsigned long long* difference) noexcept;

/// The status of work submitted to a device; after a fault or a hang the device is latched off.
Status settle(Device& device, const Outcome& outcome) noexcept;

/// A small job with a known answer. Throws std::runtime_error if the device gives another answer.
void self_test(Device& device);

}  // namespace ec::kernels::cuda
