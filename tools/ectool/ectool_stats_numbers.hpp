// The single numbers of a process, with their names in each of the forms in which they are shown.
#pragma once

#include <array>

#include "tools/ectool/ectool_stats.hpp"

namespace ec::tools {

struct StatsNumber {
  const char* group;  ///< in JSON an object; for people a line
  const char* name;   ///< in the group
  const char* metric;
  const char* result;  ///< its label of that name, or null
  const char* type;
  const char* help;
  std::uint64_t (*value)(const ProcessStats&);
};

/// Numbers of one group are neighbours, and so are those of one metric.
inline constexpr std::array stats_numbers{
    StatsNumber{"decode_plans", "found", "decode_plans_total", "found", "counter",
                "Decode plans asked for: found (in the cache) or solved.",
                [](auto& p) { return p.plans_found; }},
    StatsNumber{"decode_plans", "solved", "decode_plans_total", "solved", "", "",
                [](auto& p) { return p.plans_solved; }},
    StatsNumber{"device", "jobs", "jobs_on_device", nullptr, "gauge",
                "Jobs offered to the GPU and not yet answered.", [](auto& p) { return p.jobs_on_device; }},
    StatsNumber{"device", "starts", "device_starts_total", "up", "counter",
                "Times the GPU was to be brought up: up (it did) or failed.",
                [](auto& p) { return p.device.starts; }},
    StatsNumber{"device", "failed_starts", "device_starts_total", "failed", "", "",
                [](auto& p) { return p.device.failed_starts; }},
    StatsNumber{"device", "latches", "device_latches_total", nullptr, "counter",
                "Times a fault took the GPU out of service.", [](auto& p) { return p.device.latches; }},
    StatsNumber{"device", "staging_bytes", "staging_bytes", nullptr, "gauge",
                "Pinned memory for staging, bounded by EC_CUDA_STAGING_BYTES.",
                [](auto& p) { return p.device.staging_bytes; }},
    StatsNumber{"device", "given_up_bytes", "given_up_bytes", nullptr, "gauge",
                "Memory that a GPU which stopped answering may still write, so that nobody uses it again.",
                [](auto& p) { return p.given_up_bytes; }},
    StatsNumber{"device", "device_bytes", "device_bytes", nullptr, "gauge",
                "GPU memory of our own. The driver's context and code are not in it.",
                [](auto& p) { return p.device.device_bytes; }},
    StatsNumber{
        "programs", "found", "programs_total", "found", "counter",
        "Programs generated for a matrix: found (in the cache in memory or on disk), compiled, or failed.",
        [](auto& p) { return p.device.programs_found; }},
    StatsNumber{"programs", "compiled", "programs_total", "compiled", "", "",
                [](auto& p) { return p.device.programs_compiled; }},
    StatsNumber{"programs", "failed", "programs_total", "failed", "", "",
                [](auto& p) { return p.device.programs_failed; }},
    StatsNumber{"arena", "bytes", "arena_bytes", nullptr, "gauge",
                "Size of the arena of libec_cuda_pinned.so.",
                [](auto& p) { return std::uint64_t{p.arena.arena_bytes}; }},
    StatsNumber{"arena", "used_bytes", "arena_used_bytes", nullptr, "gauge", "Of it, handed out now.",
                [](auto& p) { return std::uint64_t{p.arena.used_bytes}; }},
    StatsNumber{"arena", "peak_bytes", "arena_peak_bytes", nullptr, "gauge",
                "Of it, the most that ever was handed out.",
                [](auto& p) { return std::uint64_t{p.arena.peak_bytes}; }},
    StatsNumber{"arena", "handed_out", "arena_blocks_total", "handed_out", "counter",
                "Blocks asked of the arena: handed_out, given_back, or refused (no room).",
                [](auto& p) { return std::uint64_t{p.arena.allocated}; }},
    StatsNumber{"arena", "given_back", "arena_blocks_total", "given_back", "", "",
                [](auto& p) { return std::uint64_t{p.arena.released}; }},
    StatsNumber{"arena", "refused", "arena_blocks_total", "refused", "", "",
                [](auto& p) { return std::uint64_t{p.arena.refused}; }}};

}  // namespace ec::tools
