// Compiles generated programs in a thread of its own, so that no job waits for a compiler.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "gf/matrix.hpp"
#include "kernels/cuda/generate/emit.hpp"
#include "kernels/cuda/generate/program_cache.hpp"

namespace ec::kernels::cuda {

/// One program, asked for and at some time there. Thread safe.
class Compilation {
 public:
  Compilation(gf::Matrix matrix, ProgramForm form, unsigned chip)
      : matrix_(std::move(matrix)), form_(form), chip_(chip) {}

  /// Null until it is compiled, and for good if that fails.
  ProgramCache::Cubin cubin() const {
    std::lock_guard lock(mutex_);
    return cubin_;
  }
  /// What the compiler said, if it failed.
  std::string failure() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  friend class ProgramCompiler;
  const gf::Matrix matrix_;
  const ProgramForm form_;
  const unsigned chip_;
  mutable std::mutex mutex_;
  ProgramCache::Cubin cubin_;
  std::string failure_;
  bool done_ = false;
};

class ProgramCompiler {
 public:
  static ProgramCompiler& instance();

  /// Queues a program; its thread starts with the first. chip: as sm_<chip>. Null if the queue is full.
  std::shared_ptr<Compilation> ask(const gf::Matrix& matrix, ProgramForm form, unsigned chip);

  /// Compiles in the calling thread unless it is done.
  void compile_now(Compilation& compilation);

 private:
  static constexpr std::size_t most_queued = 64;

  ProgramCompiler();
  void work();
  void stop();

  ProgramCache cache_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Compilation>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ec::kernels::cuda
