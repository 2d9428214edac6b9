// Measures the entrants of the cases of `ec_bench host`.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bench/common/stripes.hpp"
#include "bench/common/workers.hpp"
#include "bench/host/cases.hpp"
#include "bench/host/link.hpp"
#include "bench/host/processes.hpp"
#include "bench/host/rows.hpp"
#include "plugin/codec/codec.hpp"

namespace ec::bench {

/// Calls through the codec, with a back end forced or left to the router. Thread safe.
class CodecCalls {
 public:
  /// backend: as in HostEntrant. By the settings of this node, as in a daemon. Throws codec::SetupError for a
  /// shape that the technique does not have.
  CodecCalls(const HostCase& c, const std::string& backend);

  /// One synchronous call. Throws std::runtime_error if it reports an error.
  void run(const Stripes& stripes, std::size_t stripe) const;
  /// Calls that each back end of kernels::backends() has finished for this one.
  std::vector<std::uint64_t> counts() const;
  /// The back ends that have finished calls since `before`, those with the most first.
  std::vector<RanCalls> ran_since(const std::vector<std::uint64_t>& before) const;

 private:
  std::string backend_;
  std::unique_ptr<codec::Stats> stats_;  ///< of its own, so that others' calls do not count
  codec::Codec codec_;
};

/// The memory and the threads of a run, kept from case to case. The context of the first device must be
/// current.
class HostBench {
 public:
  /// devices: all of Options::devices, in order. Throws std::runtime_error.
  HostBench(const HostOptions& options, std::span<const std::shared_ptr<Device>> devices);

  /// One row for each entrant, in order; those that make wrong bytes are not timed. Entrants whose stripes
  /// are larger than options.largest_bytes get no row; left_out() names them. Throws std::runtime_error.
  std::vector<HostRow> measure(const HostCase& c);

  const std::vector<std::string>& left_out() const { return left_out_; }
  /// Of every case, by the ways over the link.
  const nlohmann::json& ceilings() const { return ceilings_; }

 private:
  bool fits(const HostCase& c, const HostEntrant& entrant) const {
    return entrant.threads * c.stripe_bytes() <= options_.largest_bytes;
  }
  HostCase fitting(HostCase c);
  std::size_t turns_of(const HostCase& c) const;
  std::shared_ptr<const Memory> memory(kernels::Residence residence);
  std::shared_ptr<const KnownStripe> known_stripe(const HostCase& c, const Operation& operation);
  void generate_kernel(const Operation& operation);
  void note(const HostCase& c, const Ceiling& ceiling);

  const HostOptions& options_;
  Step step_;
  std::vector<std::shared_ptr<Device>> devices_;
  Links links_;  ///< of the leader
  Workers workers_;
  std::map<kernels::Residence, std::shared_ptr<const Memory>> memories_;
  std::tuple<unsigned, unsigned, std::size_t> known_shape_{};
  std::shared_ptr<const KnownStripe> known_;
  /// Programs, with the kernels generated for them, for cases to come.
  std::vector<Operation> operations_;
  std::vector<std::string> left_out_;
  nlohmann::json ceilings_ = nlohmann::json::array();
};

}  // namespace ec::bench
