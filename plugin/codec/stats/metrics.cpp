#include "plugin/codec/stats/metrics.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstring>
#include <exception>
#include <mutex>

#include "plugin/codec/stats/metrics_file.hpp"
#include "plugin/codec/stats/metrics_text.hpp"

namespace ec::codec {
namespace {

constexpr std::chrono::seconds longest_wait_at_exit{1};
constexpr std::string_view place_of_pid = "{pid}";

std::string with_pid(std::string path) {
  for (auto at = path.find(place_of_pid); at != std::string::npos; at = path.find(place_of_pid))
    path.replace(at, place_of_pid.size(), std::to_string(getpid()));
  return path;
}

/// The file's name without its end: no two files of one directory have the same.
std::string stem(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.rfind('.'));
}

void look_at_arena() noexcept {
  static const auto ask =
      reinterpret_cast<ec_cuda_pinned_statistics_function*>(dlsym(RTLD_DEFAULT, "ec_cuda_pinned_statistics"));
  if (ask == nullptr) return;
  ec_cuda_pinned_stats now{};
  ask(&now);
  ec_cuda_pinned_stats& seen = counters().page().arena;
  for (const auto field : {&ec_cuda_pinned_stats::arena_bytes, &ec_cuda_pinned_stats::used_bytes,
                           &ec_cuda_pinned_stats::peak_bytes, &ec_cuda_pinned_stats::allocated,
                           &ec_cuda_pinned_stats::released, &ec_cuda_pinned_stats::refused})
    kernels::set(seen.*field, now.*field);
}

class Writer {
 public:
  explicit Writer(MetricsWish wish) : wish_(std::move(wish)), path_(with_pid(wish_.path)), pid_(getpid()) {}

  /// Whether the thread runs now.
  bool start() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const auto body = [](void* self) -> void* {
      static_cast<Writer*>(self)->run();
      return nullptr;
    };
    const int error = pthread_create(&thread, nullptr, body, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error != 0) {
      say(std::strerror(error));
      return false;
    }
    pthread_setname_np(thread, "ec_cuda_metrics");
    pthread_detach(thread);
    return true;
  }

  /// Asks the thread to end and waits for that, but not for a file system that does not answer.
  void stop() {
    // A child has neither the thread nor, perhaps, an unlocked mutex.
    if (getpid() != pid_) return;
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, longest_wait_at_exit, [&] { return ended_; });
  }

 private:
  void run() noexcept {
    bool written = false;
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      lock.unlock();
      written = write() || written;
      lock.lock();
      changed_.wait_for(lock, wish_.interval, [&] { return stopping_; });
    }
    if (written) unlink(path_.c_str());
    ended_ = true;
    changed_.notify_all();
  }

  bool write() noexcept try {
    look_at_arena();
    const int error = replace_file(path_, metrics_text(counters().page(), stem(path_)));
    if (error != 0) say(std::strerror(-error));
    return error == 0;
  } catch (const std::exception& e) {  // no memory: the next time, perhaps
    return false;
  }

  void say(const char* why) try {
    if (wish_.log != nullptr && !said_)
      wish_.log(
          fmt::format(
              "ec_cuda: EC_CUDA_METRICS: {} cannot be written: {}; tried again every {} s, and not said "
              "again",
              path_, why, wish_.interval.count())
              .c_str());
    said_ = true;
  } catch (const std::exception&) {
    // The line is lost.
  }

  const MetricsWish wish_;
  const std::string path_;
  const pid_t pid_;
  bool said_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool ended_ = false;
};

/// unused, once only: wanted, then begun by whoever is first. A child of fork() inherits it.
enum class State : unsigned char { unused, noting, wanted, begun };
std::atomic<State> state{State::unused};

/// Never destroyed: the thread that calls want_metrics() may not be the one that reads it last.
MetricsWish& noted() {
  static auto* wish = new MetricsWish;
  return *wish;
}

void begin_to_write() noexcept try {
  auto expected = State::wanted;
  if (!state.compare_exchange_strong(expected, State::begun)) return;
  static auto* writer = new Writer(noted());
  static const struct AtExit {
    bool runs = writer->start();
    ~AtExit() {
      if (runs) writer->stop();
    }
  } at_exit;
} catch (const std::exception&) {
  // No memory: this process writes no file.
}

}  // namespace

void want_metrics(const MetricsWish& wish) noexcept try {
  auto expected = State::unused;
  if (wish.path.empty() || !state.compare_exchange_strong(expected, State::noting)) return;
  noted() = wish;
  state = State::wanted;
} catch (const std::exception&) {
  // No memory: no file.
}

void look_after_metrics(Counters::Clock::time_point now) noexcept {
  using std::chrono::seconds;
  static std::atomic<std::int64_t> looked_at{-1};
  const std::int64_t second = std::chrono::duration_cast<seconds>(now.time_since_epoch()).count();
  std::int64_t last = looked_at.load(std::memory_order_relaxed);
  if (last != second && looked_at.compare_exchange_strong(last, second, std::memory_order_relaxed))
    look_at_arena();
  if (state.load(std::memory_order_relaxed) == State::wanted) begin_to_write();
}

}  // namespace ec::codec
