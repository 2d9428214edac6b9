// Calls that meet share a launch: what comes while another call is being launched goes along in the next.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>

#include "kernels/backend.hpp"
#include "kernels/cuda/outcome.hpp"

namespace ec::kernels::cuda {

/// Nobody waits for company: a call that finds no launch under way starts at once, and those that find one
/// would wait for the driver, which takes one launch at a time, in any case. Thread safe.
class Meeting {
 public:
  /// Jobs of a party; what is more goes in the next one.
  static constexpr std::size_t most = 16;

  /// Codes a party of jobs of one program and one length, and calls `launched` as soon as the driver has
  /// them, once or not at all.
  using Coder = std::function<Outcome(std::span<const Job> party, const std::function<void()>& launched)>;

  /// Has `code` called, here or in another thread that is in attend(), for a party with this job in it.
  /// Returns what became of the party, busy if that was an exception.
  Outcome attend(const Job& job, const Coder& code);

  /// Calls that wait for a launch to be over.
  std::size_t waiting();

 private:
  struct Guest;

  bool starts(Guest& guest);
  static void wait_for_turn(Guest& guest);
  static Outcome lead(Guest& first, const Coder& code, const std::function<void()>& launched);
  static void dismiss(Guest* party, const Guest& leader, const Outcome& outcome);
  void hand_over();

  std::mutex mutex_;
  bool launching_ = false;
  Guest* waiting_ = nullptr;  // by arrival
};

}  // namespace ec::kernels::cuda
