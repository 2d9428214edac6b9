// Verifies, then times, the entrants of a case of `ec_bench host`.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bench/host/host_coder.hpp"
#include "bench/host/host_crew.hpp"
#include "bench/host/host_link.hpp"
#include "bench/host/host_options.hpp"
#include "bench/host/host_report.hpp"
#include "bench/host/host_stripes.hpp"
#include "bench/host/processes.hpp"

namespace ec::bench {

/// The memory and the threads of a run, kept from case to case. The context of the first device must be
/// current.
class HostBench {
 public:
  /// devices: all of Options::devices, in order. Throws std::runtime_error.
  HostBench(const HostOptions& options, std::span<const std::shared_ptr<kernels::cuda::Device>> devices);

  /// One row for each entrant, in order; those that make wrong bytes are not timed. Entrants whose stripes
  /// are larger than options.largest_bytes get no row; left_out() names them. Throws std::runtime_error.
  std::vector<HostRow> measure(const HostCase& c);

  std::vector<std::string> left_out() const { return left_out_; }
  /// Every ceiling that was measured for a whole mix or a case.
  nlohmann::json ceilings() const { return ceilings_; }

 private:
  struct Entry;
  HostCase fitting(HostCase c);
  std::size_t turns_of(const HostCase& c) const;
  const Arena& arena(kernels::Residence residence);
  const Twin& twin(const HostCase& c, const kernels::Program& encode);
  void generate_kernel(const HostCase& c, const kernels::Program& program);
  Ceiling& ceiling_of_mix(const HostCase& c);
  void note(const HostCase& c, const Ceiling& ceiling);

  static std::size_t turns_to_check(const HostCase& c, const HostStripes& stripes);
  bool verify(const HostCase& c, const HostStripes& stripes, const Entry& entry);
  HostRound sample(const HostStripes& stripes, Entry& entry, double seconds, std::size_t fewest_calls = 1);
  void settle(const HostStripes& stripes, Entry& entry);
  /// ceiling: null in members that measure none.
  HostRow row_of(const HostCase& c, const Entry& entry, const Ceiling* ceiling) const;
  void run_rounds(const HostStripes& stripes, std::vector<Entry*> entries, Ceiling* ceiling);

  const HostOptions& options_;
  Step step_;
  std::vector<std::shared_ptr<kernels::cuda::Device>> devices_;
  LinkRooms links_;  ///< of the leader
  Crew crew_;
  std::map<kernels::Residence, std::unique_ptr<Arena>> arenas_;
  std::tuple<unsigned, unsigned, std::size_t> twin_shape_{};
  std::unique_ptr<Twin> twin_;
  std::map<std::tuple<bool, unsigned, unsigned>, std::unique_ptr<Ceiling>> mixes_;
  /// Programs, with the kernels generated for them, for cases to come.
  std::vector<std::shared_ptr<codec::Code>> codes_;
  std::size_t next_ = 0;  ///< turn at which in the pool the next sample begins
  std::vector<std::string> left_out_;
  nlohmann::json ceilings_ = nlohmann::json::array();
};

}  // namespace ec::bench
