// Measures the entrants of the cases of `ec_bench host`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "bench/common/stripes.hpp"
#include "bench/host/cases.hpp"
#include "bench/host/link.hpp"
#include "bench/host/rows.hpp"

namespace ec::bench {

/// The memory and the threads of a run, kept from case to case. The context of the first device must be
/// current.
class HostBench {
 public:
  /// devices: all of Options::devices, in order. Throws std::runtime_error.
  HostBench(const HostOptions& options, std::span<const std::shared_ptr<Device>> devices);

  /// As one of many processes, see Member.
  void join(unsigned index, std::function<void()> wait);

  /// One row for each entrant, in order; those that make wrong bytes are not timed. Throws
  /// std::runtime_error, also for wrong bytes of one of many processes.
  std::vector<HostRow> measure(const HostCase& c);

  /// Of every case, by the ways over the link.
  const nlohmann::json& ceilings() const { return ceilings_; }

 private:
  std::size_t turns_of(const HostCase& c) const;
  std::shared_ptr<const Memory> memory(kernels::Residence residence);
  void generate_kernel(const Operation& operation);

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
