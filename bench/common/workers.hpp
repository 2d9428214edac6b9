// Threads that make calls at the same time.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <functional>
#include <future>
#include <stdexcept>
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
  /// Throws std::runtime_error where so many threads cannot be made.
  explicit Workers(unsigned most_threads) : gate_(static_cast<std::ptrdiff_t>(most_threads) + 1) {
    try {
      for (unsigned t = 0; t < most_threads; ++t)
        threads_.emplace_back([this, t] {
          for (;;) {
            gate_.arrive_and_wait();
            if (tasks_.empty()) return;
            if (t < tasks_.size()) tasks_[t]();
            gate_.arrive_and_wait();
          }
        });
    } catch (const std::exception& e) {
      const std::size_t made = threads_.size();
      for (std::size_t t = made; t < most_threads; ++t) gate_.arrive_and_drop();
      gate_.arrive_and_wait();  // the threads that were made see no task, and end
      throw std::runtime_error(
          fmt::format("{} of {} threads could be made: {}", made, most_threads, e.what()));
    }
  }
  ~Workers() { gate_.arrive_and_wait(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Runs body(0) .. body(threads - 1), each in a thread of its own, begun together; 1 to most_threads.
  /// Throws what one of them threw.
  void run(unsigned threads, const std::function<void(unsigned)>& body) {
    for (unsigned t = 0; t < threads; ++t) tasks_.emplace_back([&body, t] { body(t); });
    gate_.arrive_and_wait();
    gate_.arrive_and_wait();
    auto done = std::exchange(tasks_, {});
    for (auto& each : done) each.get_future().get();
  }

 private:
  std::barrier<> gate_;  ///< of the workers and of who uses them: before a task, and behind it
  std::vector<std::packaged_task<void()>> tasks_;
  std::vector<std::jthread> threads_;
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
