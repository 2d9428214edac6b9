// The data that calls keep for their thread: one look-up a call, which takes 20 instructions in a library. No
// lock, no memory that other threads write.
#pragma once

#include <chrono>
#include <cstdint>

namespace ec::codec {

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

  // Out of line: of an inlined look-up compilers make two.
  static ThisThread& look_up() noexcept;
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

inline ThisThread& this_thread() noexcept {
  ThisThread& thread = ThisThread::look_up();
  if (thread.shard == ThisThread::none) [[unlikely]]
    thread.choose_shard();
  return thread;
}

}  // namespace ec::codec
