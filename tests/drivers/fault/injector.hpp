// Decides for each call whether it goes wrong.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/device/driver.hpp"
#include "tests/drivers/fault/plan.hpp"

namespace ec::test::faults {

/// What becomes of a call. code 0: it is done, as the rest says.
struct Effect {
  int code = 0;
  bool ends_context = false;
  Rule::What what = Rule::What::error;
  std::chrono::microseconds time{0};
};

/// How a function stands to the context: whether it answers the context's error, and whether it is done even
/// then, because what it takes down is gone in any case.
enum class Needs { nothing, context, always_done };

/// Thread safe.
class Injector {
 public:
  /// Takes the plan of EC_FAULTS; what is wrong with that is said on stderr, once, and refused() from then
  /// on.
  Injector() {
    if (const char* path = std::getenv("EC_FAULTS_LOG"))
      if (log_ = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666); log_ < 0)
        std::fprintf(stderr, "EC_FAULTS_LOG: %s cannot be written\n", path);
    const char* plan = std::getenv("EC_FAULTS");
    const char* why = plan == nullptr ? nullptr : take_plan(plan);
    refused_ = why != nullptr;
    if (refused_) std::fprintf(stderr, "EC_FAULTS: %s\n", why);
  }

  /// Whether EC_FAULTS is no plan.
  bool refused() const { return refused_; }

  /// Counts a call of driver_sites[site] and says what becomes of it. Does not sleep.
  Effect enter(std::size_t site, Needs needs) {
    calls_[site].fetch_add(1, std::memory_order_relaxed);
    if (!armed_.load(std::memory_order_acquire)) return {};
    std::lock_guard lock(mutex_);
    Effect effect;
    const auto due = std::ranges::find_if(
        rules_, [&](Rule& rule) { return rule.covers(driver_sites[site]) && rule.due(); });
    if (due != rules_.end()) {
      say_locked(site, *due);
      effect = effect_locked(*due);
      if (effect.code != 0) return effect;
    }
    if (needs == Needs::always_done) return effect;
    const bool is_lost = std::chrono::steady_clock::now() < lost_until_;
    effect.code = is_lost ? CUDA_ERROR_DEVICE_UNAVAILABLE : needs == Needs::context ? sticky_ : 0;
    return effect;
  }

  /// The context was made anew.
  void context_made() {
    std::lock_guard lock(mutex_);
    sticky_ = 0;
  }
  /// What ended the context; 0 while it is well.
  int sticky() {
    std::lock_guard lock(mutex_);
    return sticky_;
  }

  /// Forgets the rules, and what went wrong before.
  void forget() {
    std::lock_guard lock(mutex_);
    rules_.clear();
    sticky_ = 0;
    lost_until_ = {};
    armed_ = false;
  }
  /// Takes a plan (plan.hpp) in the place of the rules, but a context that has ended stays ended until it is
  /// made anew. Null, or what is wrong with the plan, which lives until the next call in this thread; then
  /// nothing is changed.
  const char* take_plan(const char* text) {
    thread_local std::string why;
    auto rules = parse_plan(text, &why);
    if (!why.empty()) return why.c_str();
    std::lock_guard lock(mutex_);
    rules_ = std::move(rules);
    armed_ = !rules_.empty() || sticky_ != 0 || std::chrono::steady_clock::now() < lost_until_;
    return nullptr;
  }
  /// Back to a healthy library; counts are cleared.
  void reset() {
    forget();
    for (auto& count : calls_) count = 0;
  }

  unsigned calls(std::string_view symbol) const {
    const auto at = std::ranges::find(driver_sites, symbol) - std::begin(driver_sites);
    return calls_.at(static_cast<std::size_t>(at));
  }
  unsigned all_calls() const {
    unsigned sum = 0;
    for (const auto& count : calls_) sum += count;
    return sum;
  }

 private:
  Effect effect_locked(const Rule& rule) {
    using What = Rule::What;
    if (rule.sticky) sticky_ = rule.code;
    if (rule.what == What::lost) {
      sticky_ = CUDA_ERROR_DEVICE_UNAVAILABLE;
      lost_until_ = std::chrono::steady_clock::now() + rule.time;
    }
    return {rule.code, rule.sticky || rule.what == What::lost, rule.what, rule.time};
  }

  /// A line of EC_FAULTS_LOG: process, function, number of the call, what happens to it.
  void say_locked(std::size_t site, const Rule& rule) {
    static constexpr std::string_view names[] = {"error", "lost", "hang", "slow", "wrong"};
    if (log_ < 0) return;
    std::string what(names[static_cast<std::size_t>(rule.what)]);
    if (rule.what == Rule::What::error) what += fmt::format(" {}", rule.code);
    const std::string line =
        fmt::format("{} {} {} {}\n", getpid(), driver_sites[site], calls_[site].load(), what);
    // Nobody can be told if it fails.
    if (write(log_, line.data(), line.size()) < 0) return;
  }

  std::array<std::atomic<unsigned>, std::size(driver_sites)> calls_{};
  std::atomic<bool> armed_{false};  // something may go wrong
  bool refused_ = false;
  std::mutex mutex_;
  std::vector<Rule> rules_;
  int sticky_ = 0;
  std::chrono::steady_clock::time_point lost_until_{};
  int log_ = -1;  // of EC_FAULTS_LOG
};

}  // namespace ec::test::faults
