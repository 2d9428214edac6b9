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

/// The CPU on calls that move (read and write) up to so many bytes: from a core's own cache to memory. Larger
/// calls cost at least what these rates come to.
struct CpuClass {
  std::uint64_t up_to_bytes = 0;
  Rates rates;

  bool operator==(const CpuClass&) const = default;
};

/// Where the classes of the built-in table end.
inline constexpr std::array<std::uint64_t, 4> class_bounds{std::uint64_t{256} << 10, std::uint64_t{1} << 20,
                                                           std::uint64_t{4} << 20, std::uint64_t{64} << 20};

struct CostTable {
  /// By rising up_to_bytes; the last one has no limit. Pinned memory is ordinary memory to a core.
  std::array<CpuClass, class_bounds.size() + 1> cpu;
  /// The device on pageable chunks, which it copies through pinned memory. Nothing: they stay with the CPU.
  std::optional<Rates> pageable;
  /// The device on pinned chunks: reads and writes share the call, as the link carries both ways at once.
  Rates pinned;
  /// The device on chunks in its own memory.
  Rates device;
  /// As many calls as the device starts in the time of one call_us.
  double parallel_calls = 1;

  bool operator==(const CostTable&) const = default;
};

/// For machines that are not calibrated: a server with AVX-512 and GFNI, and a data-centre GPU on PCIe 5 x16.
const CostTable& default_costs() noexcept;

}  // namespace ec::codec
