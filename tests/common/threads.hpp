// Work in several threads.
#pragma once

#include <thread>
#include <vector>

namespace ec::test {

/// work(0) .. work(count - 1), each in a thread of its own. The end of what is returned waits for all.
template <class Work>
[[nodiscard]] std::vector<std::jthread> threads_of(unsigned count, const Work& work) {
  std::vector<std::jthread> threads;
  for (unsigned number = 0; number < count; ++number) threads.emplace_back(work, number);
  return threads;
}

/// The same, waited for.
template <class Work>
void in_threads(unsigned count, const Work& work) {
  static_cast<void>(threads_of(count, work));
}

}  // namespace ec::test
