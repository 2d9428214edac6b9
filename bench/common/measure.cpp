#include "bench/common/measure.hpp"

#include <algorithm>
#include <barrier>
#include <ctime>
#include <exception>
#include <mutex>
#include <thread>

#include "bench/common/stats.hpp"

namespace ec::bench {
namespace {

/// Seconds since some moment.
double now(ClockKind clock) {
  timespec t{};
  clock_gettime(clock == ClockKind::wall ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Enough to see a stripe at either end and some between.
constexpr std::size_t verified_stripes = 8;

bool verify(Contestant& contestant, const Case& c) {
  const std::size_t count = std::min(verified_stripes, c.stripes);
  for (std::size_t i = 0; i < count; ++i)
    if (!contestant.verify(count == 1 ? 0 : i * (c.stripes - 1) / (count - 1))) return false;
  return true;
}

/// Keeps the first exception of several threads.
class FirstError {
 public:
  void keep(std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

/// The calls of one thread: its stripes in turn, from where the last sample ended.
void make_calls(Contestant& contestant, const Case& c, unsigned thread, std::size_t first,
                std::size_t calls) {
  const std::size_t own = c.stripes / c.threads;
  for (std::size_t i = 0; i < calls; ++i) contestant.run((first + i) % own * c.threads + thread);
}

/// Seconds that `calls` calls of every thread take: by the wall clock from the start of all to the end of the
/// last, by the CPU clock the mean of the threads.
double time_sample(Contestant& contestant, const Case& c, ClockKind clock, std::size_t first,
                   std::size_t calls) {
  if (c.threads == 1) {
    const double start = now(clock);
    make_calls(contestant, c, 0, first, calls);
    return now(clock) - start;
  }
  // By the threads' own clocks: on a busy machine this thread may be woken long after they began.
  std::barrier gate(static_cast<std::ptrdiff_t>(c.threads));
  FirstError error;
  std::vector<double> begun(c.threads);
  std::vector<double> ended(c.threads);
  std::vector<std::jthread> threads;
  const double before = now(clock);
  for (unsigned t = 0; t < c.threads; ++t)
    threads.emplace_back([&, t] {
      gate.arrive_and_wait();
      begun[t] = now(clock);
      try {
        make_calls(contestant, c, t, first, calls);
      } catch (...) {
        error.keep(std::current_exception());
      }
      ended[t] = now(clock);
    });
  for (auto& thread : threads) thread.join();
  const double seconds = clock == ClockKind::cpu
                             ? (now(clock) - before) / c.threads
                             : *std::ranges::max_element(ended) - *std::ranges::min_element(begun);
  threads.clear();
  error.rethrow();
  return seconds;
}

/// Calls of one thread that take a sample's time; warms everything up on the way.
std::size_t calls_per_sample(Contestant& contestant, const Case& c, const Pace& pace) {
  std::size_t calls = 1;
  double taken = time_sample(contestant, c, pace.clock, 0, calls);
  while (taken < pace.sample_seconds) {
    const double factor = std::clamp(1.2 * pace.sample_seconds / std::max(taken, 1e-9), 1.5, 10.0);
    calls = static_cast<std::size_t>(static_cast<double>(calls) * factor) + 1;
    taken = time_sample(contestant, c, pace.clock, 0, calls);
  }
  return calls;
}

void fill_ratios(std::vector<Row>& rows, const std::string& baseline) {
  const auto base =
      std::ranges::find_if(rows, [&](const Row& r) { return r.contestant == baseline && r.verified; });
  if (base == rows.end()) return;
  for (Row& row : rows) {
    row.baseline = baseline;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < row.call_seconds.size(); ++i)
      ratios.push_back(base->call_seconds[i] / row.call_seconds[i]);
    if (!ratios.empty()) row.ratio = median(ratios);
  }
}

}  // namespace

std::vector<Row> measure(Road& road, const Case& c, const Pace& pace) {
  const auto contestants = road.line_up(c);
  std::vector<Row> rows;
  std::vector<Contestant*> sound;
  std::vector<std::size_t> row_of;
  for (const auto& contestant : contestants) {
    Row row;
    row.what = c;
    row.contestant = contestant->name();
    row.path = contestant->path();
    row.verified_against = contestant->verified_against();
    row.verified = verify(*contestant, c);
    if (row.verified) {
      sound.push_back(contestant.get());
      row_of.push_back(rows.size());
    }
    rows.push_back(std::move(row));
  }
  std::vector<std::size_t> calls;
  for (Contestant* contestant : sound) calls.push_back(calls_per_sample(*contestant, c, pace));
  // Each sample goes on in the pool where the last one ended: what another contestant has just read is not
  // cold.
  std::size_t next = 0;
  for (unsigned round = 0; round < pace.rounds; ++round)
    for (std::size_t i = 0; i < sound.size(); ++i) {
      const std::size_t turn = (i + round) % sound.size();
      const double seconds = time_sample(*sound[turn], c, pace.clock, next, calls[turn]);
      next += calls[turn];
      rows[row_of[turn]].call_seconds.push_back(seconds / static_cast<double>(calls[turn]));
    }
  fill_ratios(rows, road.baseline());
  return rows;
}

}  // namespace ec::bench
