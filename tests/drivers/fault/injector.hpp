// Decides for each call whether it goes wrong. One for each of the two libraries that can.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/drivers/fault/plan.hpp"

namespace ec::test::faults {

/// What becomes of a call. code 0: it is done, after `delay`.
struct Effect {
  int code = 0;
  std::chrono::microseconds delay{0};
  bool ends_context = false;
  bool wrong = false;
  bool hang = false;
  std::chrono::microseconds hang_time{0};  ///< 0: for ever
};

/// How a function stands to the context: whether it answers the context's error, and whether it is done even
/// then, because what it takes down is gone in any case.
enum class Needs { nothing, context, always_done };

/// Thread safe.
class Injector {
 public:
  static constexpr std::size_t most_sites = 64;

  /// Takes the plan of EC_FAULTS; what is wrong with that is said on stderr, once, and refused() from then
  /// on.
  explicit Injector(std::span<const std::string_view> sites);

  /// Whether EC_FAULTS is no plan.
  bool refused() const { return refused_; }

  /// Counts a call of sites[site] and says what becomes of it. Does not sleep.
  Effect enter(std::size_t site, Needs needs);

  /// The context was made anew.
  void context_made();
  /// What ended the context; 0 while it is well.
  int sticky();

  /// Takes `rules` in the place of those there are, and forgets what went wrong before.
  void take(std::vector<Rule> rules);
  /// Takes a plan (plan.hpp) in their place, but a context that has ended stays ended until it is made anew.
  /// Null, or what is wrong with the plan, which lives until the next call in this thread; then nothing is
  /// changed.
  const char* take_plan(const char* text);
  /// One rule more.
  void add(Rule rule);
  /// Back to a healthy library; counts are cleared.
  void reset();

  unsigned calls(std::string_view symbol) const;
  unsigned all_calls() const;
  /// Calls that went wrong since reset().
  unsigned injected() const { return injected_; }

 private:
  Effect decide_locked(std::size_t site, Needs needs);
  void say_locked(std::size_t site, const Rule& rule);

  const std::span<const std::string_view> sites_;
  std::array<std::atomic<unsigned>, most_sites> calls_{};
  std::atomic<unsigned> injected_{0};
  std::atomic<bool> armed_{false};  // something may go wrong
  bool refused_ = false;
  std::mutex mutex_;
  std::vector<Rule> rules_;
  int sticky_ = 0;
  int lost_ = 0;
  std::chrono::steady_clock::time_point lost_until_{};
  int log_ = -1;  // of EC_FAULTS_LOG
};

}  // namespace ec::test::faults
