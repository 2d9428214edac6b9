// The memory bound: loops that read and write what a code reads and writes, and compute next to nothing.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "bench/common/measure.hpp"
#include "kernels/region.hpp"

namespace ec::bench {

using Sources = std::span<const kernels::Source>;
using Targets = std::span<const kernels::Target>;
using Line [[gnu::vector_size(64)]] = std::uint64_t;

/// Past the cache, where any CPU of this kind can.
inline void stream_line(std::uint8_t* to, const Line& line) {
#ifdef __x86_64__
  for (int i = 0; i < 4; ++i)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, reinterpret_cast<const __m128i*>(&line)[i]);
#else
  std::memcpy(to, &line, sizeof(Line));
#endif
}

#ifdef __x86_64__
#define EC_MOVE move_avx512
#define EC_TARGET [[gnu::target("avx512f,avx512bw")]]
#define EC_STREAM(to, line) _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)(line))
#include "bench/common/memory_bound.inl"
#undef EC_MOVE
#undef EC_TARGET
#undef EC_STREAM
#endif
#define EC_MOVE move_plain
#define EC_TARGET
#define EC_STREAM stream_line
#include "bench/common/memory_bound.inl"
#undef EC_MOVE
#undef EC_TARGET
#undef EC_STREAM

/// Reads every source and writes every target once; the targets get bytes of the sum of what was read. bytes:
/// of each chunk; in host memory, any alignment. Returns the XOR of all 64-bit words read, the last one of a
/// chunk filled up with zeros.
using Move = std::uint64_t (*)(std::size_t tile_bytes, Sources, Targets, std::size_t bytes);

template <bool ahead, bool stream>
Move move_here() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512bw")) return move_avx512<ahead, stream>;
#endif
  return move_plain<ahead, stream>;
}

/// One way to walk the same bytes. The bound of a case is the fastest of them.
struct Walk {
  std::string name;
  std::size_t tile_bytes;
  Move move;
};

inline std::span<const Walk> walks() {
  static const std::array<Walk, 5> all{{{"stream 512 ahead", 512, move_here<true, true>()},
                                        {"stream 1024 ahead", 1024, move_here<true, true>()},
                                        {"stream 512", 512, move_here<false, true>()},
                                        {"store 512 ahead", 512, move_here<true, false>()},
                                        {"store 1024", 1024, move_here<false, false>()}}};
  return all;
}

/// Of the names of contestants that only move bytes.
inline constexpr std::string_view bound_prefix = "limit: ";

/// The loops on stripes of host memory, which have sources(stripe), targets(stripe) and chunk_bytes().
template <class Stripes>
std::vector<Contestant> bound_contestants(unsigned threads, const std::shared_ptr<Stripes>& stripes) {
  std::vector<Contestant> list;
  for (const Walk& walk : walks()) {
    const auto move = [&walk, stripes](std::size_t s) {
      return walk.move(walk.tile_bytes, stripes->sources(s), stripes->targets(s), stripes->chunk_bytes());
    };
    const auto right = [move, stripes](std::size_t s) {
      std::uint64_t expected = 0;
      for (const auto& source : stripes->sources(s))
        for (std::size_t at = 0; at < stripes->chunk_bytes(); at += 8) {
          std::uint64_t word = 0;
          std::memcpy(&word, source.data + at, std::min<std::size_t>(8, stripes->chunk_bytes() - at));
          expected ^= word;
        }
      return move(s) == expected;
    };
    list.push_back({.name = std::string(bound_prefix) + walk.name,
                    .threads = threads,
                    .run = [move](std::size_t s) { move(s); },
                    .right = right});
  }
  return list;
}

}  // namespace ec::bench
