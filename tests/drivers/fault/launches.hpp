// Launches that hang, and results that come out wrong.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
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
  std::vector<std::byte> parameter(CUfunction function, void** parameters) const;

  /// Keeps work of `stream` back until `due`: a launch, or what comes after one that is kept back. context:
  /// the caller's.
  void hold(CUstream stream, CUcontext context, Clock::time_point due, std::function<void()> work);
  /// Hands the launch to the driver.
  void start(Launch& launch) const;
  /// Whether work of this stream is kept back.
  bool holds(CUstream stream);
  /// What is kept back runs now, late, where its time has come (or all of it).
  void finish(bool all);
  /// What is kept back never runs.
  void drop();

  /// Changes one bit of the first byte of the last target of a launch, when that is done.
  void spoil(const Launch& launch);
  /// Remembers a copy to the device, which may be the table of a launch for many stripes.
  void copied(CUdeviceptr to, const void* from, std::size_t bytes);

 private:
  struct Held {
    CUstream stream;
    CUcontext context;
    Clock::time_point due;
    std::function<void()> work;
  };
  CUdeviceptr last_target(const Launch& launch);

  const kernels::cuda::Driver* driver_ = nullptr;
  PFN_cuFuncGetParamInfo_v12040 info_ = nullptr;
  std::mutex mutex_;
  std::vector<Held> held_;
  std::atomic<bool> any_held_{false};
  /// By the address of a table, its last word.
  std::map<CUdeviceptr, CUdeviceptr> tables_;
};

}  // namespace ec::test::faults
