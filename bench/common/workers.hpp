// Threads that make calls at the same time.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

namespace ec::bench {

/// Threads that the machine runs at once.
inline unsigned all_cores() { return std::max(1u, std::thread::hardware_concurrency()); }

/// Worker threads, kept from task to task as a daemon keeps its own: what the first call of a thread costs is
/// not measured. Used by one thread.
class Workers {
 public:
  explicit Workers(unsigned most_threads) {
    for (unsigned i = 0; i < most_threads; ++i) workers_.push_back(std::make_unique<Worker>());
    for (unsigned i = 0; i < most_threads; ++i) workers_[i]->thread = std::jthread([this, i] { work(i); });
  }
  ~Workers() {
    leaving_ = true;
    for (auto& worker : workers_) worker->go.release();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Runs body(0) .. body(threads - 1), each in a thread of its own, begun together; most_threads at most.
  /// Throws what one of them threw.
  void run(unsigned threads, const std::function<void(unsigned)>& body) {
    std::barrier gate(static_cast<std::ptrdiff_t>(threads));
    task_ = [&](unsigned thread) {
      gate.arrive_and_wait();
      body(thread);
    };
    for (unsigned t = 0; t < threads; ++t) workers_[t]->go.release();
    for (unsigned t = 0; t < threads; ++t) done_.acquire();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  struct Worker {
    std::binary_semaphore go{0};
    std::jthread thread;
  };

  void work(unsigned index) {
    for (;;) {
      workers_[index]->go.acquire();
      if (leaving_) return;
      try {
        task_(index);
      } catch (...) {
        std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
      }
      done_.release();
    }
  }

  std::function<void(unsigned)> task_;
  bool leaving_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;
  std::counting_semaphore<> done_{0};
  std::vector<std::unique_ptr<Worker>> workers_;
};

/// Calls body(0) .. body(count - 1) on all cores. Throws what one of them threw.
inline void in_parallel(std::size_t count, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  const auto threads = static_cast<unsigned>(std::min<std::size_t>(all_cores(), count));
  Workers(threads).run(threads, [&](unsigned) {
    for (std::size_t i; (i = next.fetch_add(1)) < count;) body(i);
  });
}

}  // namespace ec::bench
