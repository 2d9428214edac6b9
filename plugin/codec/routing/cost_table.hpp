// What jobs cost on this machine, as plain data. cost_model.hpp makes predictions of it, calibration.hpp
// keeps it in a file. MB is 1e6 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

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

/// For machines that are not calibrated: a server with AVX-512 and GFNI, and a data-centre GPU on PCIe 5 x16.
const CostTable& default_costs() noexcept;

}  // namespace ec::codec
