// Checks, warms up, and takes samples in turn.
#include "bench/common/measure.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <random>
#include <stdexcept>

namespace ec::bench {
namespace {

using Time = std::chrono::steady_clock;  // which all processes share
using Seconds = std::chrono::duration<double>;

/// Calls between two looks at the clock take this part of a sample, where not each call is timed.
constexpr double batch_part = 0.125;

/// Of the whole process, and of the programs that it ran.
double cpu_now() {
  timespec own{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  rusage children{};
  getrusage(RUSAGE_CHILDREN, &children);
  return double(own.tv_sec + children.ru_utime.tv_sec + children.ru_stime.tv_sec) +
         1e-6 * double(children.ru_utime.tv_usec + children.ru_stime.tv_usec) + 1e-9 * double(own.tv_nsec);
}

/// What a thread did in a sample.
struct Calls {
  std::size_t count = 0;
  double begun = 0;
  double ended = 0;
  double cpu_begun = 0;
  double cpu_ended = 0;
  std::unique_ptr<CallHistogram> times{};  ///< where each call is timed; larger than the first cache
};

struct Measurement {
  Workers& workers;
  const std::vector<Contestant>& contestants;
  const StripeOrder& order;
  const Pace& pace;
  std::vector<Result> results{contestants.size()};
  std::vector<std::size_t> batches = std::vector<std::size_t>(contestants.size(), 1);
  std::size_t next = 0;  ///< turn at which the next sample begins
  /// Of the last sample: the turn at which it began, and the calls of each thread.
  std::size_t first = 0;
  std::vector<std::size_t> made{};

  std::vector<Result> run() {
    std::vector<std::size_t> sound;
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      results[i].verified = check(contestants[i], true);
      if (!results[i].verified) continue;
      warm_up(i);
      // Calls one after the other must not have left something else.
      results[i].verified = check(contestants[i], false);
      if (results[i].verified) sound.push_back(i);
    }
    for (std::size_t round = 0; round < pace.rounds && !sound.empty(); ++round) {
      // Each finds the caches as another one left them every time, ..
      const std::size_t last = sound.back();
      std::shuffle(sound.begin(), sound.end(), std::mt19937(static_cast<unsigned>(round)));
      if (sound.front() == last) std::swap(sound.front(), sound.back());
      if (pace.before_round) {
        pace.before_round();
        // .. the first one too, not as what else was measured left them.
        sample(sound.back(), pace.sample_seconds);
      }
      for (const std::size_t i : sound) {
        Result& result = results[i];
        result.samples[result.rounds++] = sample(i, pace.sample_seconds, &result.calls);
        if (result.rounds < pace.rounds) continue;
        // Before others write to the same stripes, which find the caches as calls left them.
        result.verified = check(contestants[i], false);
        if (!contestants[i].prepare) sample(i, pace.sample_seconds);
      }
    }
    return std::move(results);
  }

  /// Looks at what calls of the last sample left, or at calls that it makes itself, of all turns.
  bool check(const Contestant& contestant, bool makes_calls) {
    std::atomic<bool> right{true};
    workers.run(contestant.threads, [&](unsigned thread) {
      const std::size_t turns = makes_calls ? order.turns : std::min(order.turns, made[thread]);
      const std::size_t checked = std::clamp<std::size_t>(order.checked_turns, 1, turns);
      for (std::size_t i = 0; i < checked; ++i) {
        // The first and the last turn among them.
        const std::size_t stripe =
            order.at(thread, first + i * (turns - 1) / std::max<std::size_t>(checked - 1, 1));
        if (makes_calls && contestant.spoil) contestant.spoil(stripe);
        if (makes_calls) contestant.run(stripe);
        if (!contestant.right(stripe)) right = false;
      }
    });
    return pace.agree(right);
  }

  void warm_up(std::size_t index) {
    const double seconds = std::max(pace.warm_seconds, pace.sample_seconds);
    // Right bytes of calls before must not hide that these write none.
    if (const auto& spoil = contestants[index].spoil)
      workers.run(contestants[index].threads, [&](unsigned thread) { spoil(order.at(thread, next)); });
    const Sample warm = sample(index, seconds);
    if (pace.each_call || pace.sample_seconds == 0) return;
    const double of_thread = warm.calls_per_second() / contestants[index].threads;
    batches[index] = static_cast<std::size_t>(of_thread * pace.sample_seconds * batch_part) + 1;
  }

  /// The calls of one thread for that time.
  Calls make_calls(std::size_t index, unsigned thread, double seconds) const {
    const auto& run = contestants[index].run;
    Calls calls{.cpu_begun = cpu_now()};
    if (pace.each_call) calls.times = std::make_unique<CallHistogram>();
    const auto begun = Time::now();
    const auto end = begun + Seconds(seconds);
    auto last = begun;
    do {
      for (std::size_t i = 0; i < batches[index]; ++i) run(order.at(thread, next + calls.count++));
      // One reading of the clock: the end of one call is the beginning of the next.
      const auto now = Time::now();
      if (calls.times) calls.times->add(static_cast<std::uint64_t>((now - last).count()));
      last = now;
    } while (last < end);
    calls.cpu_ended = cpu_now();
    calls.begun = Seconds(begun.time_since_epoch()).count();
    calls.ended = Seconds(last.time_since_epoch()).count();
    return calls;
  }

  Sample sample(std::size_t index, double seconds, CallHistogram* times = nullptr) {
    std::vector<Calls> calls(contestants[index].threads);
    // In a thread that makes calls: its core has the caches that are made warm.
    if (const auto& prepare = contestants[index].prepare) workers.run(1, [&](unsigned) { prepare(); });
    pace.before_sample();
    workers.run(contestants[index].threads,
                [&](unsigned thread) { calls[thread] = make_calls(index, thread, seconds); });
    Sample all{.begun = calls[0].begun, .ended = calls[0].ended};
    first = next;
    made.clear();
    for (const Calls& each : calls) {
      if (times != nullptr && each.times) times->add(*each.times);
      made.push_back(each.count);
      all.calls += static_cast<double>(each.count);
      all.begun = std::min(all.begun, each.begun);
      all.ended = std::max(all.ended, each.ended);
    }
    next += std::ranges::max(made);
    const double cpu = std::ranges::max_element(calls, {}, &Calls::cpu_ended)->cpu_ended -
                       std::ranges::min_element(calls, {}, &Calls::cpu_begun)->cpu_begun;
    all.cpu_seconds = cpu / all.calls;
    return all;
  }
};

}  // namespace

std::vector<Result> measure(Workers& workers, const std::vector<Contestant>& contestants,
                            const StripeOrder& order, const Pace& pace) {
  return Measurement{workers, contestants, order, pace}.run();
}

void Result::add(const Result& other) {
  if (rounds != other.rounds) throw std::runtime_error("the processes did not measure the same");
  calls.add(other.calls);
  for (std::size_t i = 0; i < rounds; ++i) {
    Sample& all = samples[i];
    const Sample& one = other.samples[i];
    all = {all.calls + one.calls,
           (all.cpu_seconds * all.calls + one.cpu_seconds * one.calls) / (all.calls + one.calls),
           std::min(all.begun, one.begun), std::max(all.ended, one.ended)};
  }
}

Figures::Figures(const std::vector<Contestant>& contestants, std::span<const Result> results, bool by_cpu)
    : contestants_(contestants), seconds_(results.size()) {
  for (std::size_t i = 0; i < results.size(); ++i)
    for (const Sample& s : std::span(results[i].samples).first(results[i].verified ? results[i].rounds : 0))
      seconds_[i].push_back(by_cpu ? s.cpu_seconds : contestants[i].threads / s.calls_per_second());
}

Figures::Place Figures::fastest(const std::function<bool(const Contestant&)>& is) const {
  Place best;
  for (std::size_t i = 0; i < seconds_.size(); ++i)
    if (verified(i) && is(contestants_[i]) && (!best || call_seconds(i) < call_seconds(*best))) best = i;
  return best;
}

std::optional<double> Figures::times(std::size_t i, Place base) const {
  if (!base || !verified(i)) return std::nullopt;
  std::vector<double> ratios(seconds_[i].size());
  std::ranges::transform(seconds_[*base], seconds_[i], ratios.begin(), std::divides<>{});
  return median(ratios);
}

}  // namespace ec::bench
