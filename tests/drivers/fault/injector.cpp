// Takes rules, counts calls, and says which of them go wrong.
#include "tests/drivers/fault/injector.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "kernels/cuda/device/driver.hpp"

namespace ec::test::faults {

Injector::Injector(std::span<const std::string_view> sites) : sites_(sites) {
  if (const char* path = std::getenv("EC_FAULTS_LOG"))
    if (log_ = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666); log_ < 0)
      std::fprintf(stderr, "EC_FAULTS_LOG: %s cannot be written\n", path);
  const char* plan = std::getenv("EC_FAULTS");
  if (plan == nullptr) return;
  std::string why;
  take(parse_plan(plan, &why));
  refused_ = !why.empty();
  if (refused_) std::fprintf(stderr, "EC_FAULTS: %s\n", why.c_str());
}

Effect Injector::enter(std::size_t site, Needs needs) {
  calls_[site].fetch_add(1, std::memory_order_relaxed);
  if (!armed_.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(mutex_);
  return decide_locked(site, needs);
}

Effect Injector::decide_locked(std::size_t site, Needs needs) {
  Effect effect;
  for (Rule& rule : rules_) {
    if (!rule.covers(sites_[site]) || !rule.due()) continue;
    say_locked(site, rule);
    effect.delay = rule.what == Rule::What::slow ? rule.time : std::chrono::microseconds(0);
    effect.wrong = rule.what == Rule::What::wrong;
    effect.hang = rule.what == Rule::What::hang;
    effect.hang_time = rule.time;
    if (rule.what == Rule::What::error) {
      if (rule.sticky) sticky_ = rule.code;
      effect.ends_context = rule.sticky;
      effect.code = rule.code;
      return effect;
    }
    if (rule.what == Rule::What::lost) {
      sticky_ = lost_ = CUDA_ERROR_DEVICE_UNAVAILABLE;
      lost_until_ = std::chrono::steady_clock::now() + rule.time;
      effect.ends_context = true;
    }
    break;
  }
  if (needs == Needs::always_done) return effect;
  if (lost_ != 0 && std::chrono::steady_clock::now() >= lost_until_) lost_ = 0;
  effect.code = lost_ != 0 ? lost_ : needs == Needs::context ? sticky_ : 0;
  return effect;
}

/// A line of EC_FAULTS_LOG: process, function, number of the call, what happens to it.
void Injector::say_locked(std::size_t site, const Rule& rule) {
  static constexpr std::string_view names[] = {"error", "lost", "hang", "slow", "wrong"};
  injected_.fetch_add(1, std::memory_order_relaxed);
  if (log_ < 0) return;
  std::string what(names[static_cast<std::size_t>(rule.what)]);
  if (rule.what == Rule::What::error) what += fmt::format(" {}", rule.code);
  const std::string line = fmt::format("{} {} {} {}\n", getpid(), sites_[site], calls_[site].load(), what);
  // Nobody can be told if it fails.
  if (write(log_, line.data(), line.size()) < 0) return;
}

void Injector::context_made() {
  std::lock_guard lock(mutex_);
  sticky_ = 0;
}

int Injector::sticky() {
  std::lock_guard lock(mutex_);
  return sticky_;
}

void Injector::take(std::vector<Rule> rules) {
  std::lock_guard lock(mutex_);
  rules_ = std::move(rules);
  sticky_ = lost_ = 0;
  armed_ = !rules_.empty();
}

const char* Injector::take_plan(const char* text) {
  thread_local std::string why;
  auto rules = parse_plan(text, &why);
  if (!why.empty()) return why.c_str();
  std::lock_guard lock(mutex_);
  rules_ = std::move(rules);
  armed_ = !rules_.empty() || sticky_ != 0 || lost_ != 0;
  return nullptr;
}

void Injector::add(Rule rule) {
  std::lock_guard lock(mutex_);
  rules_.push_back(std::move(rule));
  armed_ = true;
}

void Injector::reset() {
  take({});
  injected_ = 0;
  for (auto& count : calls_) count = 0;
}

unsigned Injector::calls(std::string_view symbol) const {
  const auto at = std::ranges::find(sites_, symbol);
  return at == sites_.end() ? 0 : calls_[static_cast<std::size_t>(at - sites_.begin())].load();
}

unsigned Injector::all_calls() const {
  unsigned sum = 0;
  for (const auto& count : calls_) sum += count;
  return sum;
}

}  // namespace ec::test::faults
