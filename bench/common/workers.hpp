// Threads that make calls at the same time.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <semaphore>
#include <thread>
#include <vector>

namespace ec::bench {

/// Threads that the machine runs at once.
unsigned all_cores();

/// Calls body(0) .. body(count - 1) on all cores. Throws what one of them threw.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& body);

/// Worker threads, kept from task to task as a daemon keeps its own: what the first call of a thread costs is
/// not measured. Used by one thread.
class Workers {
 public:
  explicit Workers(unsigned most_threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Runs body(0) .. body(threads - 1), each in a thread of its own, begun together; most_threads at most.
  /// Throws what one of them threw.
  void run(unsigned threads, const std::function<void(unsigned)>& body);

 private:
  struct Worker {
    std::binary_semaphore go{0};
    std::jthread thread;
  };
  void work(unsigned index);

  std::function<void(unsigned)> task_;
  bool leaving_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;
  std::counting_semaphore<> done_{0};
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace ec::bench
