// The work of the process, for operators and tests that must see which back end ran; a thread's own data.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "plugin/codec/stats/stats_page.hpp"
#include "support/process_life.hpp"

namespace ec::codec {

/// The data that calls keep for their thread: no lock, no memory that other threads write.
struct ThisThread {
  static constexpr unsigned none = ~0u;
  unsigned shard = none;        ///< of every StatsPage
  unsigned until_timed = 1;     ///< small jobs
  bool alone = false;           ///< in its shard
  unsigned until_compared = 0;  ///< calls of back ends that the Validator watches; 0: not yet drawn
  std::uint64_t random = 0;

  /// Takes the thread's next small job if nobody times or compares that job. watched: by the Validator.
  bool passes(bool watched) noexcept {
    if (until_timed <= 1 || (watched && !passes_comparison())) return false;
    --until_timed;
    return true;
  }

  /// Whether this call of a back end that is watched is to be compared. Gaps between such calls are drawn
  /// from 1 to 2 x every - 1 (every: at least 1), so that no rhythm of the caller's calls evades them.
  bool is_due(unsigned every) noexcept { return !passes_comparison() && start_gap(every); }

  /// From 0 to below - 1.
  std::uint64_t draw(std::uint64_t below) noexcept {
    // splitmix64 (Steele, Lea and Flood, 2014): nobody has to be kept from guessing.
    if (random == 0)
      random = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
               reinterpret_cast<std::uintptr_t>(this);
    std::uint64_t z = random += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % below;
  }

  void choose_shard() noexcept;

 private:
  bool passes_comparison() noexcept {
    if (until_compared <= 1) return false;
    --until_compared;
    return true;
  }
  [[gnu::noinline]] bool start_gap(unsigned every) noexcept {
    const auto gap = [&] { return static_cast<unsigned>(1 + draw(2 * std::uint64_t{every} - 1)); };
    if (until_compared == 0) {
      until_compared = gap();
      if (--until_compared != 0) return false;
    }
    until_compared = gap();
    return true;
  }
};

/// Of the initial-exec model: other thread-local data of a library are allocated in a thread's first call, by
/// a function that ends the process where memory is short.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local ThisThread thread_record;

inline ThisThread& this_thread() noexcept {
  ThisThread& thread = thread_record;
  if (thread.shard == ThisThread::none) [[unlikely]]
    thread.choose_shard();
  return thread;
}

/// Monotonic counts by back end and operation, and the device's jobs in flight; relaxed atomics, so a reader
/// may see a job in one field and not yet in another. Thread safe.
class Stats {
 public:
  using Clock = std::chrono::steady_clock;

  /// On a page of its own.
  Stats() : own_(std::make_unique<StatsPage>()), page_(own_.get()) {}

  /// never: a job that is only enqueued, or whose turn to be timed it is not.
  enum class Timed : unsigned char { sampled, never };

  /// One job on its way down the list of back ends. For the stack of one thread.
  class JobRecord {
   public:
    JobRecord(Stats& stats, ThisThread& thread, Operation operation, std::uint64_t source_bytes,
              Timed timed = Timed::sampled) noexcept
        : row_(&stats.page().shards[thread.shard].rows[0][static_cast<std::size_t>(operation)]),
          source_bytes_(source_bytes),
          alone_(thread.alone) {
      if (timed == Timed::never) return;
      if (source_bytes >= timed_from_bytes) {
        timed_ = true;
      } else if (--thread.until_timed == 0) {
        timed_ = true;
        thread.until_timed = small_jobs_a_timed_one;
      }
    }
    /// A back end gets it. backend, here and below: its index in kernels::backends().
    void begins() noexcept {
      if (timed_) [[unlikely]]
        begun_ = Clock::now();
    }
    void finished(std::size_t backend) noexcept {
      Row& row = row_of(backend);
      add(row.calls, 1, alone_);
      add(row.source_bytes, source_bytes_, alone_);
      if (timed_) [[unlikely]]
        took_time(row, source_bytes_, begun_);
    }
    void fell_back(std::size_t backend, kernels::Status status) noexcept {
      kernels::add(row_of(backend).fallbacks[cause_of(status)], 1);
    }

   private:
    Row& row_of(std::size_t backend) noexcept { return row_[backend * operations]; }
    // Not a member function, so that the compiler keeps an object in registers.
    static void took_time(Row& row, std::uint64_t source_bytes, Clock::time_point begun) noexcept;

    Row* const row_;  ///< of this operation and back end 0; the rows of one shard lie side by side
    const std::uint64_t source_bytes_;
    Clock::time_point begun_;
    const bool alone_;
    bool timed_ = false;
  };

  /// Notes the host's interface that calls the process. Before the first job.
  void speaks(std::string_view interface) noexcept;

  void happened(Event event, std::uint64_t times = 1) noexcept;

  /// Calls under way on the device, and one more of them while the mark lives. The router decides by this
  /// number, so it is not read from the page.
  unsigned on_device() const noexcept { return on_device_.load(std::memory_order_relaxed); }
  class OnDevice {
   public:
    explicit OnDevice(Stats& counts) noexcept : counts_(counts) { add(1); }
    ~OnDevice() { add(-1); }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;

   private:
    void add(int n) noexcept {
      counts_.on_device_.fetch_add(static_cast<unsigned>(n), std::memory_order_relaxed);
      kernels::add(counts_.page().jobs_on_device, static_cast<std::uint64_t>(n));
    }
    Stats& counts_;
  };

  StatsPage& page() noexcept { return *page_.load(std::memory_order_relaxed); }

 private:
  /// To a count of a shard. Two locked additions in a row take 20 ns of a Zen 5.
  static void add(std::uint64_t& count, std::uint64_t n, bool alone) noexcept {
    alone ? kernels::set(count, kernels::read(count) + n) : kernels::add(count, n);
  }

  friend Stats& stats() noexcept;
  friend NeverDestroyed<Stats>;
  /// Without a page.
  explicit constexpr Stats(std::nullptr_t) noexcept : page_(nullptr) {}
  void publish() noexcept;
  static void become_child() noexcept;
  static const int at_fork;

  std::unique_ptr<StatsPage> own_;
  std::atomic<StatsPage*> page_;
  alignas(64) std::atomic<unsigned> on_device_{0};
};

/// The counts of this process; other processes may read them (stats_page.hpp). A child of fork() counts
/// from zero. Takes no lock, and allocates nothing.
Stats& stats() noexcept;

}  // namespace ec::codec
