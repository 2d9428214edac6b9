#include "kernels/cuda/submit/copy_job.hpp"

#include <algorithm>
#include <vector>

#include "kernels/cuda/device/stream_wait.hpp"
#include "kernels/cuda/kernels/stripe_launch.hpp"
#include "kernels/cuda/submit/stripes.hpp"

namespace ec::kernels::cuda {
namespace {

/// Of every piece in device memory.
constexpr std::size_t alignment = 4096;
/// The first slice and the last are this part of a full one: nothing is coded while the first arrives, and
/// nothing arrives while the last leaves.
constexpr std::size_t least_part = 4;

/// Bytes of every chunk in a full slice.
std::size_t full_slice(const Device& device, const Job& job) {
  return device.options().copy_slot_bytes / (job.sources.size() + job.targets.size()) / alignment * alignment;
}

class CopyJob {
 public:
  CopyJob(const std::shared_ptr<Device>& device, const Job& job, KernelKind kind, Device::Lane& in,
          Device::Lane& out, const CopyRoom& room)
      : device_(device),
        driver_(device->driver()),
        job_(job),
        kind_(kind),
        in_(in.stream()),
        out_(out.stream()),
        room_(room),
        full_(full_slice(*device, job)) {}

  /// Enqueues all of it; stops at the first call that fails.
  Outcome enqueue() {
    for (std::size_t offset = 0, slice = 0; offset < job_.bytes; ++slice) {
      const std::size_t bytes = next_slice(offset);
      if (const char* failed = enqueue_slice(slice, offset, bytes)) return fault(driver_, failed, result_);
      offset += bytes;
    }
    return {};
  }

 private:
  /// Grows from the first slice and shrinks to the last.
  std::size_t next_slice(std::size_t offset) const {
    const std::size_t least = std::max(full_ / least_part / alignment * alignment, alignment);
    const std::size_t left = job_.bytes - offset;
    if (left <= least + alignment) return left;
    const std::size_t grown = std::max(offset, least);
    const std::size_t shrunk = std::max(left / 2 / alignment * alignment, least);
    return std::min({full_, grown, shrunk});
  }

  bool ok(CUresult result) {
    result_ = result;
    return result == CUDA_SUCCESS;
  }

  /// The call that failed, or null.
  const char* enqueue_slice(std::size_t slice, std::size_t offset, std::size_t bytes) {
    const CopyRoom::Slot& slot = room_.slots[slice % room_.slots.size()];
    if (slice >= room_.slots.size() && !ok(driver_.stream_wait_event(in_, slot.left, 0)))
      return "cuStreamWaitEvent";
    lay_out(slot.memory, offset, bytes);
    if (!ok(copy(there_.data(), here_.data(), job_.sources.size(), bytes, in_))) return "cuMemcpyBatchAsync";
    if (!ok(driver_.event_record(slot.arrived, in_))) return "cuEventRecord";
    if (!ok(driver_.stream_wait_event(out_, slot.arrived, 0))) return "cuStreamWaitEvent";
    if (!ok(launch_stripe(device_, *job_.program, {sources_, targets_, bytes}, Verb::transform, {kind_},
                          out_)))
      return "cuLaunchKernel";
    const std::size_t k = job_.sources.size();
    if (!ok(copy(here_.data() + k, there_.data() + k, job_.targets.size(), bytes, out_)))
      return "cuMemcpyBatchAsync";
    return ok(driver_.event_record(slot.left, out_)) ? nullptr : "cuEventRecord";
  }

  void lay_out(CUdeviceptr memory, std::size_t offset, std::size_t bytes) {
    const std::size_t stride = (bytes + alignment - 1) / alignment * alignment;
    here_.clear();
    there_.clear();
    sources_.clear();
    targets_.clear();
    const auto add = [&](const std::uint8_t* host) {
      here_.push_back(reinterpret_cast<CUdeviceptr>(host + offset));
      there_.push_back(memory);
      memory += stride;
      return reinterpret_cast<std::uint8_t*>(there_.back());
    };
    for (const Source& s : job_.sources) sources_.push_back(add(s.data));
    for (const Target& t : job_.targets) targets_.push_back(add(t.data));
  }

  CUresult copy(CUdeviceptr* to, CUdeviceptr* from, std::size_t count, std::size_t bytes, CUstream stream) {
    sizes_.assign(count, bytes);
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    std::size_t first = 0;
    return driver_.memcpy_batch_async(to, from, sizes_.data(), count, &attributes, &first, 1, stream);
  }

  const std::shared_ptr<Device>& device_;
  const Driver& driver_;
  const Job& job_;
  const KernelKind kind_;
  const CUstream in_;
  const CUstream out_;
  const CopyRoom& room_;
  const std::size_t full_;
  CUresult result_ = CUDA_SUCCESS;
  std::vector<CUdeviceptr> here_;   // of the slice at hand: the chunks in host memory,
  std::vector<CUdeviceptr> there_;  // and in the slot
  std::vector<const std::uint8_t*> sources_;
  std::vector<std::uint8_t*> targets_;
  std::vector<std::size_t> sizes_;
};

}  // namespace

bool copies_pay(const Device& device, const Job& job) {
  if (device.driver().memcpy_batch_async == nullptr || full_slice(device, job) == 0) return false;
  return all_pinned(job) && job.bytes * job.sources.size() >= device.options().copies_from_bytes;
}

Outcome run_by_copies(const std::shared_ptr<Device>& device, const Job& job, KernelKind kind) {
  const Device::Scope scope(*device);
  if (scope.result() != CUDA_SUCCESS) return fault(device->driver(), "cuCtxPushCurrent", scope.result());
  auto in = device->borrow_lane();
  auto out = device->borrow_lane();
  auto room = device->copy_rooms().borrow();
  if (!in || !out || !room) return {Status::busy, {}, false};
  LinkClock::Flight flight(device->link_clock(), job.bytes * busier_direction(job));
  const Outcome enqueued = CopyJob(device, job, kind, *in, *out, **room).enqueue();
  const Work work{.bytes = job.bytes * (job.sources.size() + job.targets.size()), .writes_in_place = true};
  Outcome waited = wait_for(*device, *out, flight, work);
  // What comes in is waited for with what goes out, unless a call failed in between.
  if (!waited.gave_up && enqueued.status != Status::ok) waited = wait_for(*device, *in, flight, work);
  if (waited.gave_up) {
    in->abandon();
    out->abandon();
    room->abandon();
  }
  return waited.status != Status::ok ? waited : enqueued;
}

}  // namespace ec::kernels::cuda
