// What jobs cost on a machine, as a table, and what a call is predicted to take. Pure functions of a table
// and a shape: no clock, no state, nothing allocated; any thread. MB is 1e6 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kernels/region.hpp"

namespace ec::codec {

/// Costs of one back end, in microseconds.
struct Rates {
  double call_us = 0;            ///< each call, however small
  double stripe_us = 0;          ///< each stripe of a call
  double read_us_per_mb = 0;     ///< bytes of all chunks that are read
  double written_us_per_mb = 0;  ///< bytes of all chunks that are written
  double product_us_per_mb = 0;  ///< sources x targets x bytes of a chunk: the arithmetic

  bool operator==(const Rates&) const = default;
};

/// Bytes that a call moves (reads and writes) on the CPU, from a core's own cache to memory: each class ends
/// with its bound, the last one has none.
inline constexpr std::array<std::uint64_t, 4> class_bounds{std::uint64_t{256} << 10, std::uint64_t{1} << 20,
                                                           std::uint64_t{4} << 20, std::uint64_t{64} << 20};

struct CostTable {
  /// By class. A call costs at least what the rates of smaller classes come to. Pinned memory is ordinary
  /// memory to a core.
  std::array<Rates, class_bounds.size() + 1> cpu;
  /// The device on pageable chunks, which it copies through pinned memory. Nothing: they stay with the CPU.
  std::optional<Rates> pageable;
  /// The device on pinned chunks: reads and writes share the call, as the link carries both ways at once.
  Rates pinned;

  bool operator==(const CostTable&) const = default;
};

/// A server with AVX-512 and GFNI, and a data-centre GPU on PCIe 5 x16.
const CostTable& default_costs() noexcept;

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
