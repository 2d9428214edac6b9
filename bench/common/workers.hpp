// Threads that make calls at the same time.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <functional>
#include <future>
#include <semaphore>
#include <thread>
#include <vector>

namespace ec::bench {

/// Threads that the machine runs at once.
inline unsigned all_cores() { return std::max(1u, std::thread::hardware_concurrency()); }

/// Worker threads, kept from task to task as a daemon keeps its own: what the first call of a thread costs is
/// not measured. Used by one thread.
class Workers {
 public:
  explicit Workers(unsigned most_threads) : workers_(most_threads) {
    for (Worker& worker : workers_)
      worker.thread = std::jthread([&worker] {
        for (;;) {
          worker.go.acquire();
          if (!worker.task.valid()) return;
          worker.task();
        }
      });
  }
  ~Workers() {
    for (Worker& worker : workers_) {
      worker.task = {};
      worker.go.release();
    }
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Runs body(0) .. body(threads - 1), each in a thread of its own, begun together; most_threads at most.
  /// Throws what one of them threw.
  void run(unsigned threads, const std::function<void(unsigned)>& body) {
    std::barrier gate(static_cast<std::ptrdiff_t>(threads));
    std::vector<std::future<void>> done;
    for (unsigned t = 0; t < threads; ++t) {
      workers_[t].task = std::packaged_task<void()>([&gate, &body, t] {
        gate.arrive_and_wait();
        body(t);
      });
      done.push_back(workers_[t].task.get_future());
      workers_[t].go.release();
    }
    for (auto& each : done) each.wait();
    for (auto& each : done) each.get();
  }

 private:
  struct Worker {
    std::packaged_task<void()> task;
    std::binary_semaphore go{0};
    std::jthread thread;
  };

  std::vector<Worker> workers_;
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
