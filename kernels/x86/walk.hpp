// How the data is walked: chosen by shape, length and the caches of this CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/x86/kernel.hpp"

namespace ec::kernels::x86 {

/// Job bytes (sources and targets) above which targets are written past the cache: the second-level cache of
/// this CPU, 1 MiB at least. Measured with 2 MiB of it: up to there ordinary stores are up to twice as fast
/// where the job is repeated, above it streaming is a quarter faster then too. With 1 MiB on a Zen 5 the
/// same: jobs of 0.4 MiB that are repeated take 1.7 times as long by streaming, those of 1.5 MiB and more 0.7
/// to 0.95.
std::size_t stream_threshold() noexcept;

/// What of a core decides how the data is walked.
struct Core {
  unsigned first_level_ways = 8;  ///< of the data cache; 8 where the system does not say
  bool intel = false;             ///< by whom it is made
  std::size_t first_level_bytes = std::size_t{32} << 10;

  bool has_few_ways() const { return first_level_ways < 12; }
};
const Core& this_core() noexcept;

/// Job bytes up to which every job is walked in one way: the first-level cache of a core of few ways, less
/// than half of that of an Intel core of more; on others stream_threshold().
std::size_t plain_threshold() noexcept;

/// The walk for a job above plain_threshold() that the second level could hold. There is none on other cores.
///
/// Few ways: up to four times the first level short blocks. On a Zen 4, chunks of 4 KiB that no cache holds,
/// 8+4, 10+4 and 16+4: 1.1 to 1.2 times the speed; in a cache 0.8 to 1.1. Side by side in a cache, 16 to 64
/// KiB of 10+4 and 16+4 would be 0.75 to 0.9.
///
/// Intel: up to twice the first level short blocks. On a Xeon with 48 KiB of first and 2 MiB of second level,
/// chunks of 4 KiB, 4+2 to 20+4, this loop nest by itself: 1.0 to 1.15 times the speed where no cache holds
/// them, 0.97 to 1.12 in the third level, 0.86 to 1.02 hot, and 4+2 hot 0.7 to 0.9. Above that
/// sources are fetched ahead, for 6 sources and 2 targets at least. 512 bytes ahead, chunks of 16 to 90 KiB
/// of 6+3 to 20+4: 1.05 to 1.4 times the speed without where no cache holds them, 0.9 to 1.1 where the second
/// level does. Of 4+2 it would be 1.05 and 0.93, of one target 1.0 and 0.8. On a Zen 5 it would take 4+2 x 64
/// KiB from 132 to 109 GB/s.
Walk cached_walk(unsigned sources, unsigned targets, std::size_t bytes, const Core& core) noexcept;

/// The walk for a job above stream_threshold() on a core. Chunks that lie a power of two apart share the
/// sets of the first-level cache, so the ways bound how many sources of a tile stay there, those included
/// that are fetched ahead. Measured in 1 MiB chunks.
///
/// 12 ways and more: no tiles. Each of up to 16 sources has load instructions of its own, so the prefetchers
/// of the first level of a Zen 5 follow it. 4+2, 8+3 and 10+4 at 82 to 92 GB/s where the third level holds
/// them, cold 34 in the median; in tiles 47 to 70 and 32. 16+4 and 20+4 at 55 to 82 and 22 to 27, in tiles 45
/// to 57 and 19 to 28. More than 20 sources, or more rows than one group, are fetched 512 bytes ahead,
/// scattered cold: 24+4 28 GB/s, 32+4 27, 32+1 35, 20+8 24; in tiles 22, 22, 25 and 17. From 64 sources on it
/// is 1.05 to 1.45 times tiles where chunks are scattered, and 0.85 where they lie a power of two apart.
///
/// The same, Intel: up to 20 sources in one group no tiles, from 4 on fetched 512 bytes ahead. Against tiles
/// of 512 bytes 1.03 to 1.1 at 4+2, 1.0 at 6+3 to 10+4, in any cache and in none; 20+4, this loop nest by
/// itself, 1.0 to 1.2, cold and hot. Otherwise 10 sources: on a Sapphire Rapids 0.97 to 1.0 of a
/// loop that only moves the bytes, where 4 reached 0.83 to 0.97; without tiles 24+4 and 32+4 would be 0.6 of
/// tiles side by side. Several groups of rows: 5 sources, in two parts at least.
///
/// Few ways: up to 24 sources in one group of rows no tiles, from 15 on short blocks. On a Zen 4 with 8 ways,
/// against tiles of 6 sources: 10+4 0.8 to 1.4 times their speed where no cache holds the chunks, 16+4 to
/// 24+4 1.0 to 1.4, and 1.4 to 1.6 in the third level. 32+4 would be 0.4 to 0.7 cold, so otherwise 6 sources
/// in a tile.
Walk large_walk(unsigned sources, unsigned targets, bool accumulate, const Core& core) noexcept;

/// Whether the sums of a transform should stay in registers that hold them. Not on a core of few ways, where
/// more sources than twice these share the first one's set of the first level: before a line is used, those
/// of other sources have taken its place. On a Zen 4, 24+8 and 32+8 side by side in chunks of 4 to 256 KiB
/// that are repeated: 1.1 to 1.5 times the speed by a block of eight after the other, and 4 KiB that no cache
/// holds 0.93 and 0.84, medians of three runs; scattered ones would be 0.77 to 0.86, and 16+8 0.6 to 0.9.
bool sums_stay(const std::uint8_t* const* sources, unsigned count, const Core& core) noexcept;

/// One of these two on this core, for a job above plain_threshold().
Walk walk_above_plain(unsigned sources, unsigned targets, std::size_t bytes, bool accumulate) noexcept;

/// The walk for `sources` x `targets` chunks of `bytes` each. targets: those of one pass.
inline Walk choose_walk(unsigned sources, unsigned targets, std::size_t bytes, bool accumulate) noexcept {
  if (bytes * (sources + targets) <= plain_threshold()) return {};
  return walk_above_plain(sources, targets, bytes, accumulate);
}

}  // namespace ec::kernels::x86
