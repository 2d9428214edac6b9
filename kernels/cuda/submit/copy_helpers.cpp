#include "kernels/cuda/submit/copy_helpers.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace ec::kernels::cuda {
namespace {

/// Bytes [first, last) of the copies, one behind the other.
void copy_range(std::span<const Copy> copies, std::size_t bytes, std::size_t first, std::size_t last) {
  while (first < last) {
    const Copy& copy = copies[first / bytes];
    const std::size_t offset = first % bytes;
    const std::size_t part = std::min(bytes - offset, last - first);
    std::memcpy(copy.to + offset, copy.from + offset, part);
    first += part;
  }
}

/// Those of its first thread and of the calling one, either of which may be bound to a core of its own. False
/// if the system does not tell.
bool cores_of_process(pid_t process, cpu_set_t& cores) {
  cpu_set_t own;
  if (sched_getaffinity(process, sizeof(cores), &cores) != 0 || sched_getaffinity(0, sizeof(own), &own) != 0)
    return false;
  CPU_OR(&cores, &cores, &own);
  return true;
}

}  // namespace

/// A call of copy(), on the stack of its caller. All of it is guarded by the mutex of the crew.
struct CopyHelpers::Task {
  std::span<const Copy> copies;
  std::size_t bytes;
  std::size_t next = 0;      ///< byte of all that nobody has started to copy
  std::size_t left = all();  ///< bytes that are not copied

  std::size_t all() const { return copies.size() * bytes; }
};

struct CopyHelpers::Crew {
  explicit Crew(unsigned most) : most_threads(most) {}

  /// Has helpers see the task, starting them if there are none; false if too many are at work.
  bool offer(Task& task) {
    if (tasks.size() == tasks.capacity()) return false;
    if (!started) start();
    tasks.push_back(&task);
    wake.notify_all();
    return true;
  }

  /// Copies pieces until all are started. `lock` holds the mutex, but not while bytes are copied.
  void work_on(Task& task, std::unique_lock<std::mutex>& lock) {
    const std::size_t all = task.all();
    while (task.next < all) {
      const std::size_t first = task.next;
      task.next = std::min(first + piece_bytes, all);
      const std::size_t last = task.next;
      if (last == all) tasks.erase(std::ranges::find(tasks, &task));
      lock.unlock();
      copy_range(task.copies, task.bytes, first, last);
      lock.lock();
      task.left -= last - first;
      if (task.left == 0) finished.notify_all();
    }
  }

  void help(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    while (wake.wait(lock, stop, [this] { return !tasks.empty(); })) work_on(*tasks.front(), lock);
  }

  /// As many as can be had, with all signals blocked: those of the process are for its own threads.
  void start() {
    started = true;
    process = getpid();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    cpu_set_t cores;
    const bool known = cores_of_process(process, cores);
    try {
      threads.reserve(most_threads);
      while (threads.size() < most_threads) {
        threads.emplace_back([this](const std::stop_token& stop) { help(stop); });
        pthread_setname_np(threads.back().native_handle(), "ec_cuda_copy");
        if (known) pthread_setaffinity_np(threads.back().native_handle(), sizeof(cores), &cores);
      }
    } catch (const std::system_error&) {
      // Fewer, or none: the callers copy more.
    } catch (const std::bad_alloc&) {
      // The same.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  const unsigned most_threads;
  std::mutex mutex;
  std::condition_variable_any wake;                  // there is a task
  std::condition_variable finished;                  // one is done
  boost::container::static_vector<Task*, 64> tasks;  // with pieces that nobody has started
  bool started = false;
  pid_t process = 0;
  std::vector<std::jthread> threads;
};

CopyHelpers::CopyHelpers(unsigned threads) : crew_(std::make_unique<Crew>(threads)) {}

CopyHelpers::~CopyHelpers() {
  // A child has neither the threads nor, perhaps, an unlocked mutex.
  if (crew_->started && crew_->process != getpid()) (void)crew_.release();
}

std::shared_ptr<CopyHelpers> CopyHelpers::of_process(unsigned threads) {
  struct Shared {
    std::mutex mutex;
    std::weak_ptr<CopyHelpers> helpers;
  };
  // Never destroyed: a device may still come up while static objects go.
  static auto* shared = new Shared;
  std::lock_guard lock(shared->mutex);
  auto helpers = shared->helpers.lock();
  if (!helpers || helpers->crew_->most_threads != threads) {
    helpers = std::make_shared<CopyHelpers>(threads);
    shared->helpers = helpers;
  }
  return helpers;
}

void CopyHelpers::copy(std::span<const Copy> copies, std::size_t bytes) noexcept {
  Task task{copies, bytes};
  if (crew_->most_threads != 0 && task.all() >= least_bytes) {
    std::unique_lock lock(crew_->mutex);
    if (crew_->offer(task)) {
      crew_->work_on(task, lock);
      crew_->finished.wait(lock, [&] { return task.left == 0; });
      return;
    }
  }
  copy_range(copies, bytes, 0, task.all());
}

}  // namespace ec::kernels::cuda
