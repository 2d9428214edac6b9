// The memory bound: loops that read and write what a code reads and writes, and compute next to nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "kernels/region.hpp"

namespace ec::bench {

/// One way to walk the same bytes. The bound of a case is the fastest of them.
struct Walk {
  std::string name;
  std::size_t tile_bytes;  ///< of every source in turn; a multiple of 64
  bool fetch_ahead;        ///< the same source's next tile
  bool stream;             ///< write past the cache
};

inline std::span<const Walk> walks() {
  static const std::array<Walk, 5> all{{{"stream 512 ahead", 512, true, true},
                                        {"stream 1024 ahead", 1024, true, true},
                                        {"stream 512", 512, false, true},
                                        {"store 512 ahead", 512, true, false},
                                        {"store 1024", 1024, false, false}}};
  return all;
}

using Sources = std::span<const kernels::Source>;
using Targets = std::span<const kernels::Target>;

#ifdef __x86_64__

template <bool fetch_ahead>
[[gnu::target("avx512f")]] inline __m512i read_tile(const std::uint8_t* from, std::size_t bytes,
                                                    __m512i sum) {
  for (std::size_t at = 0; at < bytes; at += 64) {
    if constexpr (fetch_ahead) _mm_prefetch(reinterpret_cast<const char*>(from + bytes + at), _MM_HINT_T0);
    sum = _mm512_xor_si512(sum, _mm512_load_si512(from + at));
  }
  return sum;
}

[[gnu::target("avx512f")]] inline std::uint64_t move_avx512(const Walk& walk, Sources sources,
                                                            Targets targets, std::size_t bytes) {
  __m512i sum = _mm512_setzero_si512();
  for (std::size_t tile = 0; tile < bytes; tile += walk.tile_bytes) {
    const std::size_t length = std::min(walk.tile_bytes, bytes - tile);
    for (const auto& source : sources)
      sum = walk.fetch_ahead ? read_tile<true>(source.data + tile, length, sum)
                             : read_tile<false>(source.data + tile, length, sum);
    for (const auto& target : targets)
      for (std::size_t at = tile; at < tile + length; at += 64)
        if (walk.stream)
          _mm512_stream_si512(reinterpret_cast<__m512i*>(target.data + at), sum);
        else
          _mm512_store_si512(target.data + at, sum);
  }
  if (walk.stream) _mm_sfence();
  std::uint64_t words[8];
  _mm512_storeu_si512(words, sum);
  std::uint64_t all = 0;
  for (auto word : words) all ^= word;
  return all;
}

#endif

/// Baseline: ordinary stores only.
inline std::uint64_t move_plain(const Walk& walk, Sources sources, Targets targets, std::size_t bytes) {
  std::array<std::uint64_t, 8> sum{};
  for (std::size_t tile = 0; tile < bytes; tile += walk.tile_bytes) {
    const std::size_t end = std::min(tile + walk.tile_bytes, bytes);
    for (const auto& source : sources)
      for (std::size_t at = tile; at < end; at += 64) {
        std::array<std::uint64_t, 8> line;
        std::memcpy(line.data(), source.data + at, 64);
        for (unsigned i = 0; i < 8; ++i) sum[i] ^= line[i];
      }
    for (const auto& target : targets)
      for (std::size_t at = tile; at < end; at += 64) std::memcpy(target.data + at, sum.data(), 64);
  }
  std::uint64_t all = 0;
  for (auto word : sum) all ^= word;
  return all;
}

/// Reads every source and writes every target once; the targets get bytes of the sum of what was read. bytes:
/// of each chunk, a multiple of 64; chunks 64-byte aligned, in host memory. Returns the XOR of all 64-bit
/// words read.
inline std::uint64_t move_bytes(const Walk& walk, Sources sources, Targets targets, std::size_t bytes) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return move_avx512(walk, sources, targets, bytes);
#endif
  return move_plain(walk, sources, targets, bytes);
}

}  // namespace ec::bench
