#include "bench/host/host_crew.hpp"

#include <algorithm>
#include <barrier>
#include <ctime>
#include <utility>

namespace ec::bench {
namespace {

double read_clock(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Moment {
  double wall = 0;
  double cpu = 0;
};

Moment now() { return {read_clock(CLOCK_MONOTONIC), read_clock(CLOCK_PROCESS_CPUTIME_ID)}; }

}  // namespace

Crew::Crew(unsigned most_threads) {
  for (unsigned i = 0; i < most_threads; ++i) members_.push_back(std::make_unique<Member>());
  for (unsigned i = 0; i < most_threads; ++i) members_[i]->thread = std::jthread([this, i] { work(i); });
}

Crew::~Crew() {
  leaving_ = true;
  for (auto& member : members_) member->go.release();
}

void Crew::work(unsigned index) {
  for (;;) {
    members_[index]->go.acquire();
    if (leaving_) return;
    task_(index);
    done_.release();
  }
}

void Crew::keep_error() {
  std::lock_guard lock(mutex_);
  if (!error_) error_ = std::current_exception();
}

HostSample Crew::run(unsigned threads, const std::function<void(unsigned)>& body) {
  std::barrier gate(static_cast<std::ptrdiff_t>(threads));
  std::vector<Moment> begun(threads);
  std::vector<Moment> ended(threads);
  task_ = [&](unsigned t) {
    gate.arrive_and_wait();
    begun[t] = now();
    try {
      body(t);
    } catch (...) {
      keep_error();
    }
    ended[t] = now();
  };
  for (unsigned t = 0; t < threads; ++t) members_[t]->go.release();
  for (unsigned t = 0; t < threads; ++t) done_.acquire();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return {std::ranges::max(ended, {}, &Moment::wall).wall - std::ranges::min(begun, {}, &Moment::wall).wall,
          std::ranges::max(ended, {}, &Moment::cpu).cpu - std::ranges::min(begun, {}, &Moment::cpu).cpu};
}

}  // namespace ec::bench
