// Measures the entrants of the cases of `ec_bench host`: lines the codec up on known stripes, and sets what
// it does beside the ceilings.
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
#include "bench/host/cases.hpp"
#include "bench/host/link.hpp"
#include "bench/host/rows.hpp"
#include "kernels/backends.hpp"
#include "kernels/cuda/generate/generated_program.hpp"
#include "kernels/device_stats.hpp"
#include "plugin/codec/codec.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::bench {

/// Of the stripes that a thread takes turns on.
inline constexpr std::size_t most_bytes_a_thread = std::size_t{512} << 20;
/// Of those of them that are checked: chunks may be so long that looking at them would take longer than
/// measuring.
inline constexpr std::size_t most_bytes_to_check = std::size_t{64} << 20;

/// Calls through the codec, with a back end forced or left to the router, by the settings of this node, as in
/// a daemon. Thread safe.
class CodecCalls {
 public:
  /// backend: as in HostEntrant.
  CodecCalls(const HostCase& c, const std::string& backend)
      : codec_(c.technique, c.k, c.m, router_for(backend)) {}

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
  /// The back ends that have finished calls since then, those with the most first.
  std::vector<RanCalls> ran() const {
    std::vector<RanCalls> ran;
    const auto after = counts();
    for (std::size_t i = 0; i < after.size(); ++i)
      if (after[i] > before_[i])
        ran.push_back({std::string(kernels::backends()[i]->name()), after[i] - before_[i]});
    std::ranges::stable_sort(ran, std::greater{}, &RanCalls::calls);
    return ran;
  }

 private:
  codec::Router router_for(const std::string& backend) {
    const auto choice = codec::parse_backend_choice(backend == "cuda" ? "gpu" : backend);
    const auto& node = codec::node_settings();
    return {choice.value(), node.threshold_bytes, node.costs.table, kernels::backends(), stats_};
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

/// The memory and the threads of a run, kept from case to case. The context of the first device must be
/// current.
class HostBench {
 public:
  /// devices: all of Options::devices, in order. Throws std::runtime_error.
  HostBench(const HostOptions& options, std::span<const std::shared_ptr<Device>> devices)
      : options_(options),
        devices_(devices.begin(), devices.end()),
        workers_(std::ranges::max(options.cases, {}, &HostCase::most_threads).most_threads()) {}

  /// As one of many processes, see Member.
  void join(unsigned index, std::function<void()> wait) {
    leads_ = index == 0;
    wait_ = std::move(wait);
  }

  /// One row for each entrant, in order; those that make wrong bytes are not timed. Throws
  /// std::runtime_error, also for wrong bytes of one of many processes.
  std::vector<HostRow> measure(const HostCase& c) {
    const std::uint64_t latches = kernels::read(kernels::device_stats().latches);
    const Operation operation = make_operation(c.op, c.technique, c.k, c.m, c.targets());
    generate_kernel(operation);
    const StripeOrder order{c.most_threads(), turns_of(c), most_bytes_to_check / c.stripe_bytes()};
    const Stripes stripes(operation, c.chunk_bytes, memory(c.residence), order.stripes());
    std::vector<std::unique_ptr<CodecCalls>> calls;
    std::vector<Contestant> contestants;
    for (const auto& [backend, threads] : c.entrants) {
      const CodecCalls& codec = *calls.emplace_back(std::make_unique<CodecCalls>(c, backend));
      contestants.push_back(stripe_contestant(
          backend, threads, stripes, [&](std::size_t stripe) { return codec.run(stripes, stripe); }));
    }
    std::unique_ptr<Ceiling> ceiling;
    const bool on_device = c.residence == kernels::Residence::device;
    if (leads_) {
      for (std::size_t i = links_.size(); i < devices_.size(); ++i)
        links_.push_back(std::make_unique<Link>(devices_[i], i, options_.link_bytes));
      ceiling = std::make_unique<Ceiling>(links_, on_device, c.k, c.targets());
    }
    const auto results = bench::measure(workers_, contestants, order,
                                        {.rounds = options_.rounds,
                                         .sample_seconds = options_.sample_seconds,
                                         .warm_seconds = options_.warm_seconds,
                                         .case_seconds = options_.case_seconds,
                                         .each_call = true,
                                         .before_sample = wait_,
                                         .before_round = [&] {
                                           for (const auto& each : calls) each->begin();
                                           if (ceiling) ceiling->sample();
                                         }});
    // A device that failed left its work to others.
    if (kernels::read(kernels::device_stats().latches) != latches)
      throw std::runtime_error(fmt::format("a device failed while {} was measured", c.words()));
    const bool any_timed = std::ranges::any_of(results, &Result::verified);
    if (ceiling && any_timed)
      ceilings_.push_back({{"op", c.op},
                           {"chunk_bytes", c.chunk_bytes},
                           {"k", c.k},
                           {"targets", c.targets()},
                           {"on_device", on_device},
                           {"source_gbps", ceiling->ways()}});

    std::vector<HostRow> rows;
    for (std::size_t i = 0; i < results.size(); ++i) {
      HostRow& row = rows.emplace_back(HostRow{.op = c.op,
                                               .k = c.k,
                                               .m = c.m,
                                               .chunk_bytes = c.chunk_bytes,
                                               .residence = std::string(kernels::name(c.residence)),
                                               .threads = c.entrants[i].threads,
                                               .gpus = static_cast<unsigned>(devices_.size()),
                                               .backend = c.entrants[i].backend,
                                               .verified = results[i].verified,
                                               .judges_router = c.judges_router,
                                               .samples = results[i].samples,
                                               .calls = results[i].calls});
      if (!row.verified && options_.processes > 1)
        throw std::runtime_error(fmt::format("{} made wrong bytes: {}", row.backend, c.words()));
      if (!row.verified) continue;
      row.ran = calls[i]->ran();
      if (ceiling) row.ceiling_gbps = ceiling->source_gbps();
    }
    return rows;
  }

  /// Of every case, by the ways over the link.
  const nlohmann::json& ceilings() const { return ceilings_; }

 private:
  /// As many for one thread as for each of many, so that the stripes of a thread come from the same caches.
  std::size_t turns_of(const HostCase& c) const {
    const std::size_t bytes = std::min(most_bytes_a_thread, options_.largest_bytes / c.most_threads());
    return std::clamp<std::size_t>(bytes / c.stripe_bytes(), 1, most_turns);
  }

  /// Allocated once, as large as any case needs it: page-locking takes a third of a second a GiB.
  std::shared_ptr<const Memory> memory(kernels::Residence residence) {
    auto& memory = memories_[residence];
    if (memory) return memory;
    std::size_t most = 0;
    for (const HostCase& c : options_.cases)
      if (c.residence == residence) most = std::max(most, turns_of(c) * c.most_threads() * c.stripe_bytes());
    memory = std::make_shared<const Memory>(residence, most);
    return memory;
  }

  /// Now, not by the device's own background thread in the middle of a measurement: a daemon has them too,
  /// after its first hundreds of MiB.
  void generate_kernel(const Operation& operation) {
    operations_.push_back(operation);
    const auto* generated = kernels::cuda::GeneratedProgram::of(*operation.program);
    if (generated == nullptr || !kernels::cuda::worth_generating(operation.program->matrix())) return;
    for (const auto& device : devices_)
      generated->function(device, kernels::cuda::ProgramForm::transform, 0,
                          kernels::cuda::GeneratedProgram::Wish::now);
  }

  const HostOptions& options_;
  std::vector<std::shared_ptr<Device>> devices_;
  bool leads_ = true;  ///< and measures the link
  std::function<void()> wait_ = [] {};
  std::vector<std::unique_ptr<Link>> links_;
  Workers workers_;
  std::map<kernels::Residence, std::shared_ptr<const Memory>> memories_;
  /// Programs, with the kernels generated for them, for cases to come.
  std::vector<Operation> operations_;
  nlohmann::json ceilings_ = nlohmann::json::array();
};

}  // namespace ec::bench
