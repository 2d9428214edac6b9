// What the process has done, for operators and for tests that must see which back end ran.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/backend.hpp"

namespace ec::codec {

inline constexpr std::size_t max_backends = 8;

struct BackendCounts {
  std::uint64_t calls = 0;         ///< jobs finished by this back end
  std::uint64_t source_bytes = 0;  ///< sources x chunk bytes of those jobs
  std::uint64_t fallbacks = 0;     ///< jobs it was given and did not finish: another back end did
};

/// Monotonic counts by back end; relaxed atomics, so a reader may see a job in one field and not yet in
/// another.
class Counters {
 public:
  void finished(std::size_t backend, std::uint64_t source_bytes) noexcept {
    rows_[backend].calls.fetch_add(1, std::memory_order_relaxed);
    rows_[backend].source_bytes.fetch_add(source_bytes, std::memory_order_relaxed);
  }
  void fell_back(std::size_t backend) noexcept {
    rows_[backend].fallbacks.fetch_add(1, std::memory_order_relaxed);
  }

  /// backend: its index in kernels::backends().
  BackendCounts read(std::size_t backend) const noexcept {
    const Row& r = rows_[backend];
    return {r.calls.load(std::memory_order_relaxed), r.source_bytes.load(std::memory_order_relaxed),
            r.fallbacks.load(std::memory_order_relaxed)};
  }

 private:
  struct alignas(64) Row {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> source_bytes{0};
    std::atomic<std::uint64_t> fallbacks{0};
  };
  std::array<Row, max_backends> rows_;
};

/// The counts of this process.
Counters& counters() noexcept;

/// The counts of the back end of that name; zeros if this build has none.
BackendCounts counts_of(std::string_view backend) noexcept;

}  // namespace ec::codec
