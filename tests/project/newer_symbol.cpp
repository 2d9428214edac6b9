// Needs GLIBCXX_3.4.30, for binaries_test to find.
#include <condition_variable>

__attribute__((visibility("default"))) void wait(std::condition_variable& condition,
                                                 std::unique_lock<std::mutex>& lock) {
  condition.wait(lock);
}
