// Waiting for a condition, with symbols that the C++ library of every supported host has.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ec::support {

/// Returns once holds() is true, checked with the lock held. In place of condition.wait(lock, holds), whose
/// symbol needs GLIBCXX_3.4.30; the library of Enterprise Linux 9 ends at 3.4.29.
template <class Predicate>
void wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, Predicate holds) {
  while (!condition.wait_for(lock, std::chrono::hours(1), holds)) {
  }
}

}  // namespace ec::support
