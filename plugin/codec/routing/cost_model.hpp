// Microseconds that a call is predicted to take. Pure functions of a table and a shape: no clock, no state,
// nothing allocated; any thread.
#pragma once

#include <optional>

#include "kernels/region.hpp"
#include "plugin/codec/routing/cost_table.hpp"

namespace ec::codec {

/// What a call does, without its bytes.
struct Work {
  unsigned sources = 0;
  unsigned targets = 0;
  std::uint64_t chunk_bytes = 0;
  std::uint64_t stripes = 1;
  bool accumulate = false;  ///< targets are read too

  double chunk_mb() const { return 1e-6 * static_cast<double>(chunk_bytes) * static_cast<double>(stripes); }
  double read_mb() const { return (sources + (accumulate ? targets : 0)) * chunk_mb(); }
  double written_mb() const { return targets * chunk_mb(); }
  double product_mb() const { return static_cast<double>(sources) * targets * chunk_mb(); }
};

/// One core, with the best back end for the CPU.
double cpu_us(const CostTable& costs, const Work& work) noexcept;

/// Other calls whose start the device overlaps with that of one: an estimate.
inline constexpr double parallel_starts = 4;

/// The device, over the link, with `jobs_in_hand` other calls under way. They share the link evenly, so each
/// one costs the new call its own time over again, but for the start. nearest_host: pageable if any chunk is,
/// else pinned. Nothing: pageable chunks are not for the device.
std::optional<double> device_us(const CostTable& costs, const Work& work, kernels::Residence nearest_host,
                                unsigned jobs_in_hand = 0) noexcept;

}  // namespace ec::codec
