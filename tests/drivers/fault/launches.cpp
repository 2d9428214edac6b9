// Keeps work of streams back, and finds the last target of a launch.
#include "tests/drivers/fault/launches.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ec::test::faults {
std::vector<std::byte> Launches::parameter(CUfunction function, void** parameters) const {
  std::size_t offset = 0, bytes = 0;
  if (info_ == nullptr || parameters == nullptr || info_(function, 0, &offset, &bytes) != CUDA_SUCCESS)
    return {};
  const auto* first = static_cast<const std::byte*>(parameters[0]);
  return {first, first + bytes};
}

void Launches::hold(CUstream stream, CUcontext context, Clock::time_point due, std::function<void()> work) {
  std::lock_guard lock(mutex_);
  // In the order of the stream: what is behind others is due when the last of them is.
  for (const Held& h : held_)
    if (h.stream == stream) due = std::max(due, h.due);
  held_.push_back({stream, context, due, std::move(work)});
  any_held_ = true;
}

void Launches::start(Launch& l) const {
  void* parameters[] = {l.parameter.data()};
  // Nobody asks any more how it went.
  driver_->launch_kernel(l.function, l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2],
                         l.shared, l.stream, parameters, nullptr);
}

bool Launches::holds(CUstream stream) {
  if (!any_held_) return false;
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(held_, [&](const Held& h) { return h.stream == stream; });
}

void Launches::finish(bool all) {
  if (!any_held_) return;
  std::vector<Held> due;
  {
    std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    const auto waits = [&](const Held& h) { return !all && h.due > now; };
    const auto first = std::stable_partition(held_.begin(), held_.end(), waits);
    due.assign(std::make_move_iterator(first), std::make_move_iterator(held_.end()));
    held_.erase(first, held_.end());
    any_held_ = !held_.empty();
  }
  for (Held& h : due) {
    if (driver_->ctx_push_current(h.context) != CUDA_SUCCESS) continue;
    h.work();
    CUcontext ignored = nullptr;
    driver_->ctx_pop_current(&ignored);
  }
}

void Launches::drop() {
  std::lock_guard lock(mutex_);
  held_.clear();
  any_held_ = false;
}

void Launches::copied(CUdeviceptr to, const void* from, std::size_t bytes) {
  if (bytes < 8 || bytes % 8 != 0) return;
  CUdeviceptr last = 0;
  std::memcpy(&last, static_cast<const std::byte*>(from) + bytes - 8, 8);
  std::lock_guard lock(mutex_);
  tables_[to] = last;
}

/// Every parameter has the addresses of the sources in a row, then those of the targets; or, for many
/// stripes, the one of a table of them.
CUdeviceptr Launches::last_target(const Launch& launch) {
  CUdeviceptr last = 0;
  unsigned addresses = 0;
  for (std::size_t at = 0; at + 8 <= launch.parameter.size(); at += 8) {
    CUdeviceptr word = 0;
    std::memcpy(&word, launch.parameter.data() + at, 8);
    unsigned type = 0;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    void* value = &type;
    const bool known =
        driver_->pointer_get_attributes(1, &attribute, &value, word) == CUDA_SUCCESS && type != 0;
    if (!known && addresses > 0) break;
    addresses += known;
    if (known) last = word;
  }
  std::lock_guard lock(mutex_);
  return addresses > 1 ? last : tables_[last];
}

void Launches::spoil(const Launch& launch) {
  const CUdeviceptr at = last_target(launch);
  unsigned char byte = 0;
  if (at == 0 || driver_->stream_synchronize(launch.stream) != CUDA_SUCCESS ||
      driver_->memcpy_dtoh(&byte, at, 1) != CUDA_SUCCESS)
    return;
  byte ^= 1;
  driver_->memcpy_htod(at, &byte, 1);
}

}  // namespace ec::test::faults
