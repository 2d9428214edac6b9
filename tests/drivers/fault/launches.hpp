// Launches that hang, and results that come out wrong.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda/device/driver.hpp"

namespace ec::test::faults {

/// A launch as the driver takes it, with the one parameter that each of our kernels has.
struct Launch {
  CUfunction function;
  unsigned grid[3], block[3], shared;
  CUstream stream;
  std::vector<std::byte> parameter;
};

/// Thread safe. Calls the driver behind, never itself.
class Launches {
 public:
  using Clock = std::chrono::steady_clock;

  /// The driver behind, and its cuFuncGetParamInfo; without that, or where it does not know, nothing can
  /// hang.
  void use(const kernels::cuda::Driver* driver, PFN_cuFuncGetParamInfo_v12040 info) {
    driver_ = driver;
    info_ = info;
  }

  /// The parameter of a launch of `function`; empty if its size is not known.
  std::vector<std::byte> parameter(CUfunction function, void** parameters) const {
    std::size_t offset = 0, bytes = 0;
    if (info_ == nullptr || parameters == nullptr || info_(function, 0, &offset, &bytes) != CUDA_SUCCESS)
      return {};
    const auto* first = static_cast<const std::byte*>(parameters[0]);
    return {first, first + bytes};
  }

  /// Keeps work of `stream` back until `due`: a launch, or what comes after one that is kept back. context:
  /// the caller's.
  void hold(CUstream stream, CUcontext context, Clock::time_point due, std::function<void()> work) {
    std::lock_guard lock(mutex_);
    // In the order of the stream: what is behind others is due when the last of them is.
    for (const Held& h : held_)
      if (h.stream == stream) due = std::max(due, h.due);
    held_.push_back({stream, context, due, std::move(work)});
    any_held_ = true;
  }
  /// Hands the launch to the driver.
  void start(Launch& l) const {
    void* parameters[] = {l.parameter.data()};
    // Nobody asks any more how it went.
    driver_->launch_kernel(l.function, l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2],
                           l.shared, l.stream, parameters, nullptr);
  }
  /// Whether work of this stream is kept back.
  bool holds(CUstream stream) {
    if (!any_held_) return false;
    std::lock_guard lock(mutex_);
    return std::ranges::any_of(held_, [&](const Held& h) { return h.stream == stream; });
  }
  /// What is kept back runs now, late, where its time has come (or all of it).
  void finish(bool all) {
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
  /// What is kept back never runs.
  void drop() {
    std::lock_guard lock(mutex_);
    held_.clear();
    any_held_ = false;
  }

  /// Changes one bit of the first byte of the last target of a launch, when that is done.
  void spoil(const Launch& launch) {
    const CUdeviceptr at = last_target(launch);
    unsigned char byte = 0;
    if (at == 0 || driver_->stream_synchronize(launch.stream) != CUDA_SUCCESS ||
        driver_->memcpy_dtoh(&byte, at, 1) != CUDA_SUCCESS)
      return;
    byte ^= 1;
    driver_->memcpy_htod(at, &byte, 1);
  }
  /// Remembers a copy to the device, which may be the table of a launch for many stripes.
  void copied(CUdeviceptr to, const void* from, std::size_t bytes) {
    if (bytes < 8 || bytes % 8 != 0) return;
    CUdeviceptr last = 0;
    std::memcpy(&last, static_cast<const std::byte*>(from) + bytes - 8, 8);
    std::lock_guard lock(mutex_);
    tables_[to] = last;
  }

 private:
  struct Held {
    CUstream stream;
    CUcontext context;
    Clock::time_point due;
    std::function<void()> work;
  };
  /// Every parameter has the addresses of the sources in a row, then those of the targets; or, for many
  /// stripes, the one of a table of them.
  CUdeviceptr last_target(const Launch& launch) {
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

  const kernels::cuda::Driver* driver_ = nullptr;
  PFN_cuFuncGetParamInfo_v12040 info_ = nullptr;
  std::mutex mutex_;
  std::vector<Held> held_;
  std::atomic<bool> any_held_{false};
  /// By the address of a table, its last word.
  std::map<CUdeviceptr, CUdeviceptr> tables_;
};

}  // namespace ec::test::faults
