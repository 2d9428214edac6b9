// The memory bound: loops that read and write what a code reads and writes, and compute next to nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

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

/// The name of a contestant that only moves bytes.
inline constexpr std::string_view bound_prefix = "limit: ";
inline std::string bound_name(const Walk& walk) { return std::string(bound_prefix) + walk.name; }

using Sources = std::span<const kernels::Source>;
using Targets = std::span<const kernels::Target>;

#ifdef __x86_64__

/// The lanes of a line that has `bytes` left.
inline __mmask64 lanes_of(std::size_t bytes) {
  return bytes >= 64 ? ~__mmask64{0} : (__mmask64{1} << bytes) - 1;
}

template <bool fetch_ahead>
[[gnu::target("avx512f,avx512bw")]] inline __m512i read_tile(const std::uint8_t* from, std::size_t bytes,
                                                             __m512i sum) {
  std::size_t at = 0;
  for (; at + 64 <= bytes; at += 64) {
    if constexpr (fetch_ahead) _mm_prefetch(reinterpret_cast<const char*>(from + bytes + at), _MM_HINT_T0);
    sum = _mm512_xor_si512(sum, _mm512_loadu_si512(from + at));
  }
  if (at < bytes) sum = _mm512_xor_si512(sum, _mm512_maskz_loadu_epi8(lanes_of(bytes - at), from + at));
  return sum;
}

[[gnu::target("avx512f,avx512bw")]] inline void write_tile(std::uint8_t* to, std::size_t bytes, bool stream,
                                                           __m512i sum) {
  std::size_t at = 0;
  if (stream && reinterpret_cast<std::uintptr_t>(to) % 64 == 0)
    for (; at + 64 <= bytes; at += 64) _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), sum);
  for (; at + 64 <= bytes; at += 64) _mm512_storeu_si512(to + at, sum);
  if (at < bytes) _mm512_mask_storeu_epi8(to + at, lanes_of(bytes - at), sum);
}

[[gnu::target("avx512f,avx512bw")]] inline std::uint64_t move_avx512(const Walk& walk, Sources sources,
                                                                     Targets targets, std::size_t bytes) {
  __m512i sum = _mm512_setzero_si512();
  for (std::size_t tile = 0; tile < bytes; tile += walk.tile_bytes) {
    const std::size_t length = std::min(walk.tile_bytes, bytes - tile);
    for (const auto& source : sources)
      sum = walk.fetch_ahead ? read_tile<true>(source.data + tile, length, sum)
                             : read_tile<false>(source.data + tile, length, sum);
    for (const auto& target : targets) write_tile(target.data + tile, length, walk.stream, sum);
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
        std::array<std::uint64_t, 8> line{};
        std::memcpy(line.data(), source.data + at, std::min<std::size_t>(64, end - at));
        for (unsigned i = 0; i < 8; ++i) sum[i] ^= line[i];
      }
    for (const auto& target : targets)
      for (std::size_t at = tile; at < end; at += 64)
        std::memcpy(target.data + at, sum.data(), std::min<std::size_t>(64, end - at));
  }
  std::uint64_t all = 0;
  for (auto word : sum) all ^= word;
  return all;
}

/// Reads every source and writes every target once; the targets get bytes of the sum of what was read. bytes:
/// of each chunk; in host memory, any alignment, but only chunks at a line are written past the cache.
/// Returns the XOR of all 64-bit words read, the last one of a chunk filled up with zeros.
inline std::uint64_t move_bytes(const Walk& walk, Sources sources, Targets targets, std::size_t bytes) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512bw")) return move_avx512(walk, sources, targets, bytes);
#endif
  return move_plain(walk, sources, targets, bytes);
}

}  // namespace ec::bench
