// Calls through the codec, with a back end forced or left to the router.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/host/host_options.hpp"
#include "bench/host/host_report.hpp"
#include "bench/host/host_stripes.hpp"
#include "plugin/codec/codec.hpp"

namespace ec::bench {

/// The operation of a case. What it is made of lives as long as it does. Thread safe.
class HostCoder {
 public:
  /// backend: as in HostEntrant. Throws codec::SetupError for a shape that the technique does not have.
  HostCoder(const HostCase& c, const std::string& backend);

  /// The chunks that a call reads, in order.
  std::vector<std::uint8_t> reads() const;
  /// The program that makes the targets.
  const kernels::Program& program() const { return plan_ ? plan_->program : codec_.encode_program(); }
  const kernels::Program& encode_program() const { return codec_.encode_program(); }

  /// One synchronous call. Throws std::runtime_error if it reports an error.
  void run(const HostStripes& stripes, std::size_t stripe) const;

  /// Calls that each back end of kernels::backends() has finished for this coder.
  std::vector<std::uint64_t> calls() const;
  /// The back ends that have finished calls since `before`, those with the most first.
  std::vector<RanCalls> ran_since(const std::vector<std::uint64_t>& before) const;

 private:
  std::string backend_;
  std::size_t chunk_bytes_;
  std::unique_ptr<codec::Counters> counters_;  ///< of its own, so that others' calls do not count
  codec::Codec codec_;
  std::shared_ptr<const codec::Plan> plan_;  ///< null: encode
};

}  // namespace ec::bench
