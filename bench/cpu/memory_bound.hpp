// The memory bound: loops that read and write what a code reads and writes, and compute next to nothing.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "bench/common/stripes.hpp"

namespace ec::bench {

/// One way to walk the same bytes. The bound of a case is the fastest of them.
struct Walk {
  std::string_view name;
  std::size_t tile_bytes;  ///< of every source in turn; a multiple of 64
  std::size_t ahead;       ///< bytes before they are read, lines are fetched
  bool stream;             ///< what is written goes past the cache, where a chunk begins at a line
};

inline constexpr Walk walks[] = {{"stream 512 ahead", 512, 512, true},
                                 {"stream 1024 ahead", 1024, 1024, true},
                                 {"stream 512", 512, 0, true},
                                 {"store 512 ahead", 512, 512, false},
                                 {"store 1024", 1024, 0, false}};

/// Past the cache, where the compiler and any CPU of this kind can.
template <class Vector>
[[gnu::always_inline]] inline void stream(Vector* to, const Vector& bytes) {
#if defined(__clang__)
  __builtin_nontemporal_store(bytes, to);
#elif defined(__x86_64__)
  if constexpr (sizeof(Vector) == 16)
    asm volatile("movntdq %1, %0" : "=m"(*to) : "x"(bytes));
  else
    asm volatile("vmovntdq %1, %0" : "=m"(*to) : "v"(bytes));
#else
  *to = bytes;
#endif
}

/// Reads every source and writes every target once; the targets get bytes of the sum of what was read. bytes:
/// of each chunk; in host memory, any alignment. Returns the XOR of all 64-bit words read, the last one of a
/// chunk filled up with zeros.
template <class Vector>
[[gnu::always_inline]] inline std::uint64_t move(const Walk walk, const kernels::Job job) {
  constexpr std::size_t width = sizeof(Vector);
  Vector sum{};
  for (std::size_t tile = 0; tile < job.bytes; tile += walk.tile_bytes) {
    const std::size_t end = std::min(tile + walk.tile_bytes, job.bytes);
    const std::size_t whole = end - (end - tile) % width;
    for (const kernels::Source source : job.sources) {
      for (std::size_t at = tile; walk.ahead != 0 && at < whole; at += 64)
        __builtin_prefetch(source.data + at + walk.ahead);
      for (std::size_t at = tile; at < whole; at += width) {
        Vector read;
        std::memcpy(&read, source.data + at, width);
        sum ^= read;
      }
      Vector rest{};
      if (whole < end) std::memcpy(&rest, source.data + whole, end - whole);
      sum ^= rest;
    }
    for (const kernels::Target target : job.targets) {
      std::size_t at = tile;
      if (walk.stream && reinterpret_cast<std::uintptr_t>(target.data) % 64 == 0)
        for (; at < whole; at += width) stream(reinterpret_cast<Vector*>(target.data + at), sum);
      for (; at < whole; at += width) std::memcpy(target.data + at, &sum, width);
      if (whole < end) std::memcpy(target.data + whole, &sum, end - whole);
    }
  }
  if (walk.stream) std::atomic_thread_fence(std::memory_order_seq_cst);
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < width / 8; ++i) all ^= sum[i];
  return all;
}

using Words16 [[gnu::vector_size(16)]] = std::uint64_t;
using Words32 [[gnu::vector_size(32)]] = std::uint64_t;
using Words64 [[gnu::vector_size(64)]] = std::uint64_t;

#ifdef __x86_64__
[[gnu::target("avx512f")]] inline std::uint64_t move_avx512(Walk walk, kernels::Job job) {
  return move<Words64>(walk, job);
}
[[gnu::target("avx2")]] inline std::uint64_t move_avx2(Walk walk, kernels::Job job) {
  return move<Words32>(walk, job);
}
#endif

/// Of the names of contestants that only move bytes.
inline constexpr std::string_view bound_prefix = "limit: ";

/// The loops on stripes of host memory.
inline std::vector<Contestant> bound_contestants(const std::shared_ptr<const Stripes>& stripes) {
  std::vector<Contestant> list;
  for (const Walk& walk : walks) {
    const auto run = [&walk, stripes](std::size_t s) {
#ifdef __x86_64__
      if (__builtin_cpu_supports("avx512f")) return move_avx512(walk, stripes->job(s));
      if (__builtin_cpu_supports("avx2")) return move_avx2(walk, stripes->job(s));
#endif
      return move<Words16>(walk, stripes->job(s));
    };
    const auto right = [run, stripes](std::size_t s) {
      std::uint64_t expected = 0;
      for (const auto& source : stripes->sources(s))
        for (std::size_t at = 0; at < stripes->chunk_bytes(); at += 8) {
          std::uint64_t word = 0;
          std::memcpy(&word, source.data + at, std::min<std::size_t>(8, stripes->chunk_bytes() - at));
          expected ^= word;
        }
      // Whatever the targets held before, they hold the same behind the loop: it writes every byte.
      std::vector<std::uint8_t> written[2];
      for (const int before : {0, 255}) {
        for (const auto& target : stripes->targets(s))
          std::memset(target.data, before, stripes->chunk_bytes());
        if (run(s) != expected) return false;
        for (const auto& target : stripes->targets(s))
          written[before / 255].insert(written[before / 255].end(), target.data,
                                       target.data + stripes->chunk_bytes());
      }
      return written[0] == written[1];
    };
    list.push_back({.name = fmt::format("{}{}", bound_prefix, walk.name), .run = run, .right = right});
  }
  return list;
}

}  // namespace ec::bench
