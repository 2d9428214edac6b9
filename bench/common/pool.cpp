#include "bench/common/pool.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace ec::bench {
namespace {

constexpr std::size_t alignment = 64;

}  // namespace

void fill_random(std::span<std::uint8_t> bytes, std::uint64_t seed) {
  // A Weyl sequence through a multiply-xorshift mixer: every word differs, none is zero for long.
  std::uint64_t state = seed;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    state += 0x9e3779b97f4a7c15;
    std::uint64_t word = (state ^ state >> 32) * 0xd6e8feb86659fd93;
    word ^= word >> 32;
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
  }
}

void Pool::Free::operator()(std::uint8_t* p) const { ::operator delete (p, std::align_val_t{alignment}); }

Pool::Pool(std::size_t stripes, unsigned chunks, std::size_t chunk_bytes)
    : stripes_(stripes),
      chunks_(chunks),
      chunk_bytes_(chunk_bytes),
      stride_((chunk_bytes + alignment - 1) / alignment * alignment),
      bytes_(static_cast<std::uint8_t*>(
          ::operator new (stripes* chunks* stride_, std::align_val_t{alignment}))) {
  fill_random(bytes(), chunk_bytes);
}

}  // namespace ec::bench
