// How the data is walked: chosen by shape, length and the caches of this CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/x86/kernel.hpp"

namespace ec::kernels::x86 {

/// Properties of a core that decide how the data is walked.
struct Core {
  unsigned first_level_ways = 8;  ///< of the data cache; 8 where the system does not say
  bool intel = false;             ///< whether Intel made it
  std::size_t first_level_bytes = std::size_t{32} << 10;
  /// Job bytes (sources and targets) above which targets are written past the cache: the second level, 1 MiB
  /// at least. Measured with a second level of 2 MiB: up to it ordinary stores are up to twice as fast where
  /// the job is repeated, above it streaming is a quarter faster then too. With 1 MiB on a Zen 5 the same:
  /// repeated jobs of 0.4 MiB take 1.7 times as long by streaming, jobs of 1.5 MiB and more 0.7 to 0.95.
  std::size_t stream_above = std::size_t{1} << 20;

  bool has_few_ways() const { return first_level_ways < 12; }
  /// Job bytes up to which every job is walked in the plain way: without tiles, fetching and streaming. On a
  /// Xeon with 48 KiB and 2 MiB, 6+3 to 16+4 fetched ahead would be 0.7 to 1.1 hot, mostly 0.8 to 0.95, and
  /// 0.9 to 1.12 where no cache holds the chunks.
  std::size_t plain_up_to() const { return has_few_ways() ? first_level_bytes : stream_above; }
  /// Job bytes up to which the plain way is Walk::written_out; not measured on cores of few ways. Whole calls
  /// of Ceph 20 on one stripe over and over, against the loop over sources. A Zen 5, encode_chunks of 4, 16,
  /// 32 and 64 KiB: 4+2 1.10, 1.27, 1.57, 1.01, 8+3 0.99, 1.07, 1.21, 1.02, 10+4 1.08, 1.07, 1.09, 1.01;
  /// 0.92 to 1.06 in longer ones; 1.01 to 1.14 where no cache holds the stripes. A Xeon with GFNI, objects of
  /// 4, 16, 64 and 256 KiB: encode 4+2 1.07, 1.29, 1.05, 1.02, 6+3 1.09, 1.19, 1.08, 1.09, 8+3 0.93 (other
  /// links 1.04), 1.00, 1.07, 1.13, 10+4 1.03, 0.97, 1.09, 1.00; decode of one 1.08, 1.13, 1.05, 0.98. In
  /// every fourth process the loop over sources took 1.1 to 1.3 times as long as in others; this one did not.
  std::size_t written_out_up_to() const {
    if (intel) return plain_up_to();
    return has_few_ways() ? 0 : 2 * first_level_bytes;
  }
};
const Core& this_core() noexcept;

/// The walk on a core for `sources` x `targets` chunks of `bytes` each: a row of the table in walk.cpp.
/// targets: the targets of one pass.
Walk walk_on(const Core& core, unsigned sources, unsigned targets, std::size_t bytes,
             bool accumulate) noexcept;

/// Bounds of this core for choose_walk(); 0 before the library is loaded, so that walk_on() is asked.
extern const std::size_t plain_threshold;
extern const std::size_t written_out_threshold;

inline Walk choose_walk(unsigned sources, unsigned targets, std::size_t bytes, bool accumulate) noexcept {
  const std::size_t job = bytes * (sources + targets);
  if (job <= plain_threshold) return {.written_out = job <= written_out_threshold};
  return walk_on(this_core(), sources, targets, bytes, accumulate);
}

/// Whether targets may be written past the caches. False where the page in the middle of the last target is
/// new; the pages of all targets are then made here. The system brings a page to the caches when it clears
/// the page, and a store past the caches drives that out again: on a Xeon encode calls of 4 MiB into new
/// memory took 1.9 to 2.3 times as long as by ordinary stores, and with pages made at once 0.8 times. A look
/// takes 2 to 4 us, up to 6 % of a call of 2 MiB: after eight calls of a thread without new pages, each
/// eighth call looks.
bool may_stream_to(std::uint8_t* const* targets, unsigned rows, std::size_t bytes) noexcept;

/// Whether the sums of a transform should stay in registers that hold them. Not on a core of few ways, where
/// more sources than twice the ways share the first source's set of the first level: lines of other sources
/// take a line's place before it is used. On a Zen 4, 24+8 and 32+8 side by side in repeated chunks of 4 to
/// 256 KiB: 1.1 to 1.5 times the speed by one block of eight after the other, and 4 KiB that no cache holds
/// 0.93 and 0.84, medians of three runs; scattered chunks would be 0.77 to 0.86, and 16+8 0.6 to 0.9.
bool sums_stay(const std::uint8_t* const* sources, unsigned count, const Core& core) noexcept;

}  // namespace ec::kernels::x86
