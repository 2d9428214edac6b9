// Threads that make calls at the same time, and the two clocks on them.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <semaphore>
#include <thread>
#include <vector>

namespace ec::bench {

struct HostSample {
  double seconds = 0;      ///< from the start of the first thread to the end of the last
  double cpu_seconds = 0;  ///< of the whole process meanwhile: helpers and the driver's threads count
};

/// Threads are kept from sample to sample, as a daemon keeps its own: what the first call of a thread costs
/// is not measured. Used by one thread.
class Crew {
 public:
  explicit Crew(unsigned most_threads);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Runs body(0) .. body(threads - 1), each in a thread of its own, begun together; most_threads at most.
  /// Throws what one of them threw.
  HostSample run(unsigned threads, const std::function<void(unsigned)>& body);

 private:
  struct Member {
    std::binary_semaphore go{0};
    std::jthread thread;
  };
  void work(unsigned index);
  void keep_error();

  std::function<void(unsigned)> task_;
  bool leaving_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;
  std::counting_semaphore<> done_{0};
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace ec::bench
