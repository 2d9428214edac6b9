// Measures the coders of the cases of `ec_bench host`: lines the codec up on known stripes, and sets what it
// does beside the ceilings.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "bench/common/stripes.hpp"
#include "bench/host/link.hpp"
#include "bench/host/results.hpp"
#include "kernels/backends.hpp"
#include "kernels/device_stats.hpp"
#include "plugin/codec/codec.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::bench {

/// Of the stripes that a thread takes turns on.
inline constexpr std::size_t most_bytes_a_thread = std::size_t{512} << 20;
/// Stripes of its own that a thread codes one after the other, at most.
inline constexpr std::size_t most_turns = 16;
/// Of those of them that are checked: chunks may be so long that looking at them would take longer than
/// measuring.
inline constexpr std::size_t most_bytes_to_check = std::size_t{64} << 20;

/// Who codes: the codec with a back end forced (cuda, x86, isal) or not (auto), called by so many threads.
struct HostCoder {
  std::string backend;
  unsigned threads = 1;
};

/// One line-up: every coder makes the same calls on stripes of the same memory.
struct HostCase {
  std::string op;  ///< encode, decode-1 (the first data chunk is lost), decode-m (the first m are)
  unsigned k = 0;
  unsigned m = 0;
  std::size_t chunk_bytes = 0;
  kernels::Residence residence = kernels::Residence::pinned;
  std::vector<HostCoder> coders{};

  unsigned targets() const { return op == "decode-1" ? 1 : m; }
  /// Decode writes beside the stripe.
  std::size_t stripe_bytes() const { return (k + m + (op == "encode" ? 0 : targets())) * chunk_bytes; }
  unsigned most_threads() const { return std::ranges::max(coders, {}, &HostCoder::threads).threads; }
  std::string words() const {
    return fmt::format("{} {}+{}, chunks of {} bytes, {}", op, k, m, chunk_bytes, kernels::name(residence));
  }
};

/// Calls through the codec, with a back end forced or left to the router, by the settings of this node, as in
/// a daemon. Thread safe.
class CodecCalls {
 public:
  CodecCalls(const HostCase& c, const std::string& backend)
      : codec_(technique_for({c.k, c.m}), c.k, c.m, router_for(backend)) {}

  /// One synchronous call.
  kernels::Status run(const Stripes& stripes, std::size_t stripe) const {
    const auto sources = stripes.sources(stripe);
    const auto targets = stripes.targets(stripe);
    const auto& plan = stripes.operation().plan;
    return plan ? codec_.decode(*plan, sources, targets, stripes.chunk_bytes())
                : codec_.encode(sources, targets, stripes.chunk_bytes());
  }
  /// From now on calls count; those before made the caches warm.
  void begin() {
    if (before_.empty()) before_ = counts();
  }
  /// The calls that each back end has finished since then.
  std::vector<std::uint64_t> ran() const {
    auto ran = counts();
    std::ranges::transform(ran, before_, ran.begin(), std::minus<>{});
    return ran;
  }

 private:
  codec::Router router_for(const std::string& backend) {
    const auto choice = codec::parse_backend_choice(backend == "cuda" ? "gpu" : backend);
    const auto& node = codec::node_settings();
    return {choice.value(), node.threshold_bytes, kernels::backends(), stats_};
  }
  std::vector<std::uint64_t> counts() const {
    std::vector<std::uint64_t> counts;
    for (std::size_t i = 0; i < kernels::backends().size(); ++i) counts.push_back(stats_.read(i).calls);
    return counts;
  }

  codec::Stats stats_;  ///< of its own, so that others' calls do not count
  codec::Codec codec_;
  std::vector<std::uint64_t> before_;
};

/// The memory and the threads of a process, kept from case to case. The context of the first device must be
/// current.
class HostBench {
 public:
  /// devices: all of Options::devices, in order. pace: without hooks. leads: measures the link. wait: for all
  /// processes that measure at once. largest_bytes: of the stripes of a case. Throws std::runtime_error.
  HostBench(std::span<const HostCase> cases, std::span<const std::shared_ptr<Device>> devices, Pace pace,
            std::size_t largest_bytes, std::size_t link_bytes, bool leads, std::function<void()> wait)
      : cases_(cases),
        pace_(std::move(pace)),
        largest_bytes_(largest_bytes),
        wait_(std::move(wait)),
        workers_(std::ranges::max(cases, {}, &HostCase::most_threads).most_threads()) {
    for (std::size_t i = 0; leads && i < devices.size(); ++i)
      links_.push_back(std::make_unique<Link>(devices[i], i, link_bytes));
  }

  /// One result for each coder, in order; those that make wrong bytes are not timed. Throws
  /// std::runtime_error, also if a device fails.
  std::vector<HostResult> measure(const HostCase& c) {
    const std::uint64_t latches = kernels::read(kernels::device_stats().latches);
    const Operation operation = make_operation(c.op, technique_for({c.k, c.m}), c.k, c.m, c.targets());
    const StripeOrder order{c.most_threads(), turns_of(c), most_bytes_to_check / c.stripe_bytes()};
    const Stripes stripes(operation, c.chunk_bytes, memory(c.residence), order.stripes());
    std::vector<std::unique_ptr<CodecCalls>> calls;
    std::vector<Contestant> contestants;
    for (const auto& [backend, threads] : c.coders) {
      const CodecCalls& codec = *calls.emplace_back(std::make_unique<CodecCalls>(c, backend));
      contestants.push_back(stripe_contestant(
          backend, threads, stripes, [&](std::size_t stripe) { return codec.run(stripes, stripe); }));
    }
    std::unique_ptr<Ceiling> ceiling;
    if (!links_.empty())
      ceiling =
          std::make_unique<Ceiling>(links_, c.residence == kernels::Residence::device, c.k, c.targets());
    Pace pace = pace_;
    pace.before_sample = wait_;
    pace.before_round = [&] {
      for (const auto& each : calls) each->begin();
      if (ceiling) ceiling->sample();
    };
    const auto measured = bench::measure(workers_, contestants, order, pace);
    // A device that failed left its work to others.
    if (kernels::read(kernels::device_stats().latches) != latches)
      throw std::runtime_error(fmt::format("a device failed while {} was measured", c.words()));
    std::vector<HostResult> results;
    for (std::size_t i = 0; i < measured.size(); ++i) {
      HostResult& result = results.emplace_back(measured[i]);
      if (!result.verified) continue;
      std::ranges::copy(calls[i]->ran(), result.ran.begin());
      if (ceiling) result.ceiling_gbps = ceiling->source_gbps();
    }
    return results;
  }

 private:
  /// As many for one thread as for each of many, so that the stripes of a thread come from the same caches.
  std::size_t turns_of(const HostCase& c) const {
    const std::size_t bytes = std::min(most_bytes_a_thread, largest_bytes_ / c.most_threads());
    return std::clamp<std::size_t>(bytes / c.stripe_bytes(), 1, most_turns);
  }

  /// Allocated once, as large as any case needs it: page-locking takes a third of a second a GiB.
  std::shared_ptr<const Memory> memory(kernels::Residence residence) {
    auto& memory = memories_[residence];
    if (memory) return memory;
    std::size_t most = 0;
    for (const HostCase& c : cases_)
      if (c.residence == residence) most = std::max(most, turns_of(c) * c.most_threads() * c.stripe_bytes());
    memory = std::make_shared<const Memory>(residence, most);
    return memory;
  }

  std::span<const HostCase> cases_;
  Pace pace_;
  std::size_t largest_bytes_;
  std::function<void()> wait_;
  std::vector<std::unique_ptr<Link>> links_;
  Workers workers_;
  std::map<kernels::Residence, std::shared_ptr<const Memory>> memories_;
};

}  // namespace ec::bench
