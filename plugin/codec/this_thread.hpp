// The data that calls keep for their thread: one look-up a call, which takes 20 instructions in a library.
#pragma once

#include "plugin/codec/checking/pace.hpp"

namespace ec::codec {

struct ThisThread {
  static constexpr unsigned none = ~0u;
  unsigned shard = none;     ///< of every StatsPage
  unsigned until_timed = 1;  ///< small jobs
  bool alone = false;        ///< in its shard
  Pace pace{};

  /// Takes the thread's next small job if nobody times or compares that job. whose: of Pace; 0: nobody
  /// compares.
  bool passes(std::uint32_t whose) noexcept {
    if (until_timed <= 1 || (whose != 0 && !pace.passes(whose))) return false;
    --until_timed;
    return true;
  }

  // Out of line: of an inlined look-up compilers make two.
  static ThisThread& look_up() noexcept;
  void choose_shard() noexcept;
};

inline ThisThread& this_thread() noexcept {
  ThisThread& thread = ThisThread::look_up();
  if (thread.shard == ThisThread::none) [[unlikely]]
    thread.choose_shard();
  return thread;
}

}  // namespace ec::codec
