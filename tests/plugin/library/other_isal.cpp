// A program that exports functions of ISA-L's names which do nothing, as a host with a stub or another
// version of its own might. The library's bytes must not change by that: run with EC_CUDA_BACKEND=isal. Exit
// status: 0 if every byte is right.
#include <cstdio>
#include <vector>

#include "ec/ec.h"

#define EXPORTED extern "C" __attribute__((visibility("default"), used))

EXPORTED void ec_encode_data(int, int, int, unsigned char*, unsigned char**, unsigned char**) {}
EXPORTED void ec_encode_data_update(int, int, int, int, unsigned char*, unsigned char*, unsigned char**) {}
EXPORTED void ec_init_tables(int, int, unsigned char*, unsigned char*) {}
EXPORTED void gf_vect_mul_init(unsigned char, unsigned char*) {}

int main() {
  constexpr unsigned k = 4;
  constexpr std::size_t bytes = 4096;
  ec_codec* codec = nullptr;
  if (ec_codec_create(k, 2, EC_REED_SOL_VAN, &codec) != 0) return 2;
  std::vector<unsigned char> chunks((k + 2) * bytes, 0);
  for (std::size_t i = 0; i < k * bytes; ++i) chunks[i] = static_cast<unsigned char>(i * 31 + i / bytes);
  std::vector<ec_source> data;
  for (unsigned i = 0; i < k; ++i) data.push_back({&chunks[i * bytes], EC_PAGEABLE});
  const ec_target coding[2] = {{&chunks[k * bytes], EC_PAGEABLE}, {&chunks[(k + 1) * bytes], EC_PAGEABLE}};
  if (ec_encode(codec, 1, data.data(), coding, bytes) != 0) return 2;
  // The rows of the matrix are 1 1 1 1 and 1 2 4 8.
  const auto doubled = [](unsigned x, unsigned times) {
    for (; times != 0; --times) x = (x << 1) ^ ((x & 0x80) != 0 ? 0x11d : 0);
    return x;
  };
  for (std::size_t i = 0; i < bytes; ++i) {
    unsigned sum = 0, weighted = 0;
    for (unsigned c = 0; c < k; ++c) {
      sum ^= chunks[c * bytes + i];
      weighted ^= doubled(chunks[c * bytes + i], c);
    }
    if (chunks[k * bytes + i] != sum || chunks[(k + 1) * bytes + i] != weighted) {
      std::fprintf(stderr, "other_isal: byte %zu is wrong\n", i);
      return 1;
    }
  }
  ec_codec_destroy(codec);
  return 0;
}
