// Worker threads that begin each task together.
#include "bench/common/workers.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <utility>

namespace ec::bench {

unsigned all_cores() { return std::max(1u, std::thread::hardware_concurrency()); }

void in_parallel(std::size_t count, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  const auto threads = static_cast<unsigned>(std::min<std::size_t>(all_cores(), count));
  Workers(threads).run(threads, [&](unsigned) {
    for (std::size_t i; (i = next.fetch_add(1)) < count;) body(i);
  });
}

Workers::Workers(unsigned most_threads) {
  for (unsigned i = 0; i < most_threads; ++i) workers_.push_back(std::make_unique<Worker>());
  for (unsigned i = 0; i < most_threads; ++i) workers_[i]->thread = std::jthread([this, i] { work(i); });
}

Workers::~Workers() {
  leaving_ = true;
  for (auto& worker : workers_) worker->go.release();
}

void Workers::work(unsigned index) {
  for (;;) {
    workers_[index]->go.acquire();
    if (leaving_) return;
    try {
      task_(index);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    done_.release();
  }
}

void Workers::run(unsigned threads, const std::function<void(unsigned)>& body) {
  std::barrier gate(static_cast<std::ptrdiff_t>(threads));
  task_ = [&](unsigned thread) {
    gate.arrive_and_wait();
    body(thread);
  };
  for (unsigned t = 0; t < threads; ++t) workers_[t]->go.release();
  for (unsigned t = 0; t < threads; ++t) done_.acquire();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace ec::bench
