// Loops for AVX-512 and for any CPU.
#include "bench/cpu/memory_bound.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace ec::bench {
namespace {

using Sources = std::span<const kernels::Source>;
using Targets = std::span<const kernels::Target>;

#ifdef __x86_64__

template <bool fetch_ahead>
[[gnu::target("avx512f")]] __m512i read_tile(const std::uint8_t* from, std::size_t bytes, __m512i sum) {
  for (std::size_t at = 0; at < bytes; at += 64) {
    if constexpr (fetch_ahead) _mm_prefetch(reinterpret_cast<const char*>(from + bytes + at), _MM_HINT_T0);
    sum = _mm512_xor_si512(sum, _mm512_load_si512(from + at));
  }
  return sum;
}

[[gnu::target("avx512f")]] std::uint64_t move_avx512(const Walk& walk, Sources sources, Targets targets,
                                                     std::size_t bytes) {
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
std::uint64_t move_plain(const Walk& walk, Sources sources, Targets targets, std::size_t bytes) {
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

}  // namespace

std::span<const Walk> walks() {
  static const std::array<Walk, 5> all{{{"stream 512 ahead", 512, true, true},
                                        {"stream 1024 ahead", 1024, true, true},
                                        {"stream 512", 512, false, true},
                                        {"store 512 ahead", 512, true, false},
                                        {"store 1024", 1024, false, false}}};
  return all;
}

std::uint64_t move_bytes(const Walk& walk, Sources sources, Targets targets, std::size_t bytes) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return move_avx512(walk, sources, targets, bytes);
#endif
  return move_plain(walk, sources, targets, bytes);
}

}  // namespace ec::bench
