#include "kernels/x86/walk.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace ec::kernels::x86 {
namespace {

/// Jobs that are no longer than four times the first level, or the second level.
enum class JobSize { four_first, second_level, any };
enum class Cores { few_ways, intel, others };
using enum JobSize;
using enum Cores;

constexpr unsigned one_group = max_group_rows;

/// The walk of the cores, jobs and shapes within its bounds.
struct WalkRule {
  Cores cores;
  JobSize job = any;
  unsigned most_sources = ~0u, most_targets = ~0u;
  Walk walk = {};  ///< stream: see walk_on; tiles are no longer than max_tile_bytes() and groups no larger
  unsigned least_groups = 1;
};

/// The first row that fits is taken. Chunks that lie a power of two apart share the sets of the first level,
/// so its ways bound how many sources of a tile stay there, sources fetched ahead included. Figures are GB/s,
/// or ratios to the speed of the other walks; beyond the second level in chunks of 1 MiB.
constexpr WalkRule rules[] = {
    // A Zen 4, chunks of 4 KiB that no cache holds, 8+4, 10+4 and 16+4: 1.1 to 1.2; in a cache 0.8 to
    // 1.1. Side by side in a cache, 16 to 64 KiB of 10+4 and 16+4 would be 0.75 to 0.9.
    {.cores = few_ways, .job = four_first, .walk = {.short_blocks = true}},
    {.cores = few_ways, .job = second_level},

    // Each of up to 16 sources has load instructions of its own, which the prefetchers of a Zen 5 follow:
    // 4+2, 8+3 and 10+4 82 to 92 in the third level and 34 cold, in tiles 47 to 70 and 32; 16+4 and 20+4
    // 55 to 82 and 22 to 27, in tiles 45 to 57 and 19 to 28.
    {.cores = others, .most_sources = 20, .most_targets = one_group},
    // Scattered cold: 24+4 28, 32+4 27, 32+1 35, 20+8 24; in tiles 22, 22, 25, 17. From 64 sources on
    // 1.05 to 1.45 of tiles where chunks are scattered, 0.85 where they lie a power of two apart.
    {.cores = others, .walk = {.ahead_bytes = 512}},

    // A Zen 4 with 8 ways, against tiles of 6 sources: 10+4 0.8 to 1.4 where no cache holds the chunks,
    // 16+4 to 24+4 1.0 to 1.4, and 1.4 to 1.6 in the third level. 32+4 would be 0.4 to 0.7 cold.
    {.cores = few_ways, .most_sources = 14, .most_targets = one_group},
    {.cores = few_ways, .most_sources = 24, .most_targets = one_group, .walk = {.short_blocks = true}},
    {.cores = few_ways, .walk = {.tile_bytes = 1024, .group_sources = 6}},

    // Against tiles of 512 bytes 1.03 to 1.1 at 4+2, 1.0 at 6+3 to 10+4, in any cache and in none; 20+4,
    // this loop nest by itself, 1.0 to 1.2, cold and hot.
    {.cores = intel, .most_sources = 3, .most_targets = one_group},
    {.cores = intel, .most_sources = 20, .most_targets = one_group, .walk = {.ahead_bytes = 512}},
    // A Sapphire Rapids: 0.97 to 1.0 of a loop that only moves the bytes, where 4 sources reached 0.83 to
    // 0.97; without tiles 24+4 and 32+4 would be 0.6 side by side.
    {.cores = intel, .most_targets = one_group, .walk = {.tile_bytes = 512, .group_sources = 10}},
    // More rows than one group read a tile again from the cache: the tile is longer.
    {.cores = intel, .walk = {.tile_bytes = 1024, .group_sources = 5}, .least_groups = 2},
};

bool fits(const WalkRule& rule, const Core& core, unsigned sources, unsigned targets, std::size_t job) {
  const bool few = core.has_few_ways();
  const bool cores[] = {few, core.intel, !core.intel && !few};
  const std::size_t jobs[] = {4 * core.first_level_bytes, core.stream_above, ~std::size_t{0}};
  return cores[static_cast<unsigned>(rule.cores)] && job <= jobs[static_cast<unsigned>(rule.job)] &&
         sources <= rule.most_sources && targets <= rule.most_targets;
}

}  // namespace

const Core& this_core() noexcept {
  static const Core core = [] {
    const auto or_else = [](int name, std::size_t otherwise) {
      const long said = sysconf(name);
      return said > 0 ? static_cast<std::size_t>(said) : otherwise;
    };
    Core found{.intel = __builtin_cpu_is("intel") != 0};
    found.first_level_ways = static_cast<unsigned>(or_else(_SC_LEVEL1_DCACHE_ASSOC, found.first_level_ways));
    found.first_level_bytes = or_else(_SC_LEVEL1_DCACHE_SIZE, found.first_level_bytes);
    found.stream_above = std::max(or_else(_SC_LEVEL2_CACHE_SIZE, 0), found.stream_above);
    return found;
  }();
  return core;
}

const std::size_t plain_threshold = this_core().plain_up_to();
const std::size_t written_out_threshold = this_core().written_out_up_to();

Walk walk_on(const Core& core, unsigned sources, unsigned targets, std::size_t bytes,
             bool accumulate) noexcept {
  const std::size_t job = bytes * (sources + targets);
  if (job <= core.plain_up_to()) return {.written_out = job <= core.written_out_up_to()};
  const WalkRule& rule =
      *std::ranges::find_if(rules, [&](const WalkRule& r) { return fits(r, core, sources, targets, job); });
  Walk walk = rule.walk;
  walk.stream = !accumulate && job > core.stream_above;
  if (walk.tile_bytes == 0) return walk;
  walk.tile_bytes = std::min(walk.tile_bytes, max_tile_bytes(targets));
  const unsigned groups =
      std::max((sources + walk.group_sources - 1) / walk.group_sources, rule.least_groups);
  walk.group_sources = (sources + groups - 1) / groups;
  return walk;
}

bool may_stream_to(std::uint8_t* const* targets, unsigned rows, std::size_t bytes) noexcept {
  constexpr std::uintptr_t page = 4096;
  const auto page_of = [](const std::uint8_t* at) {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(at) / page * page);
  };
  // Initial-exec: other thread-local data of a library are allocated in a thread's first call.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local unsigned written_in_a_row = 0;
  if (++written_in_a_row > 8 && written_in_a_row % 8 != 0) return true;
  unsigned char is_there = 1;
  mincore(page_of(targets[rows - 1] + bytes / 2), page, &is_there);
  if ((is_there & 1) != 0) return true;
  written_in_a_row = 0;
  for (unsigned r = 0; r < rows; ++r) {
    auto* const begin = static_cast<std::uint8_t*>(page_of(targets[r]));
    // Linux before 5.14 does not know this; pages are made by the first stores to them then.
    madvise(begin, static_cast<std::size_t>(targets[r] + bytes - begin), MADV_POPULATE_WRITE);
  }
  return false;
}

bool sums_stay(const std::uint8_t* const* sources, unsigned count, const Core& core) noexcept {
  if (!core.has_few_ways()) return true;
  const std::uintptr_t set = core.first_level_bytes / core.first_level_ways - 64;  // the bits of its number
  const auto bits = [&](unsigned s) { return reinterpret_cast<std::uintptr_t>(sources[s]) & set; };
  unsigned sharing = 0;
  for (unsigned s = 0; s < count; ++s) sharing += bits(s) == bits(0);
  return sharing <= 2 * core.first_level_ways;
}

}  // namespace ec::kernels::x86
