// Compiles generated programs and loads them, in a thread of its own: no job waits for a compiler, or for a
// driver that waits for the device.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gf/matrix.hpp"
#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/generate/emit.hpp"
#include "kernels/cuda/generate/program_files.hpp"
#include "support/background_thread.hpp"

namespace ec::kernels::cuda {

/// The program of one matrix on one device, asked for and at some time there. Thread safe.
class GeneratedKernel {
 public:
  GeneratedKernel(gf::Matrix matrix, ProgramForm form, std::weak_ptr<Device> device)
      : matrix_(std::move(matrix)), form_(form), device_(std::move(device)) {}

  bool is_for(ProgramForm form, const std::shared_ptr<Device>& device) const {
    return form == form_ && !device_.owner_before(device) && !device.owner_before(device_);
  }
  const gf::Matrix& matrix() const { return matrix_; }
  ProgramForm form() const { return form_; }
  bool device_is_gone() const { return device_.expired(); }

  /// Null until it is there, and for good if that fails.
  CUfunction function() const noexcept { return function_.load(std::memory_order_acquire); }
  /// Waits until it is there or has failed.
  void wait() const noexcept { done_.wait(false); }
  /// Why it failed; empty while that is not known.
  std::string failure() const { return done_ ? failure_ : std::string(); }

 private:
  friend class ProgramCompiler;
  const gf::Matrix matrix_;
  const ProgramForm form_;
  const std::weak_ptr<Device> device_;
  CUmodule module_ = nullptr;  // of the compiler's thread
  std::string failure_;        // before done_
  std::atomic<CUfunction> function_{nullptr};
  std::atomic<bool> done_{false};
};

/// Thread safe.
class ProgramCompiler {
 public:
  static ProgramCompiler& instance();

  /// The kernel for this device, of whoever asked for it first; otherwise it is queued, and the thread starts
  /// with the first. Null if the queue is full, the system has no thread, or the process ends. Kernels that
  /// nobody holds any more are kept for the next who asks, but not many. Throws std::bad_alloc.
  std::shared_ptr<const GeneratedKernel> ask(const gf::Matrix& matrix, ProgramForm form,
                                             const std::shared_ptr<Device>& device);

 private:
  static constexpr std::size_t most_queued = 64;
  static constexpr std::size_t most_unused = 64;
  using Kernels = std::list<std::shared_ptr<GeneratedKernel>>;

  ProgramCompiler() : files_(default_cache_directory(), {}) {}
  void stop();
  void work();
  Kernels take_unused_locked();
  void make(GeneratedKernel& kernel) noexcept;
  std::string compile_and_load(GeneratedKernel& kernel);
  std::vector<char> compiled(const GeneratedKernel& kernel, unsigned chip, std::string* why);
  bool know_version(std::string* why);

  std::mutex mutex_;
  std::condition_variable wake_;
  Kernels queue_;
  Kernels made_;  // what was asked for last is first
  std::atomic<bool> stopping_{false};
  support::BackgroundThread thread_;
  // Of the thread.
  const ProgramFiles files_;
  std::string version_;      // of NVRTC; empty: not known
  std::string unavailable_;  // why nothing is compiled in this process; empty: something may be
};

}  // namespace ec::kernels::cuda
