// What the fuzz targets share. A target takes any bytes, and ends the process where the code under test is
// wrong.
#pragma once

#include <fmt/format.h>
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "gf/chunk_set.hpp"

namespace ec::fuzz {

/// Cuts the bytes of a run into numbers, choices and texts.
using Input = FuzzedDataProvider;

/// Unless it holds: says what does not, and ends the process, so that libFuzzer keeps the input.
template <class... Args>
void expect(bool holds, fmt::format_string<Args...> what, Args&&... args) {
  if (holds) [[likely]]
    return;
  fmt::print(stderr, "expected: {}\n", fmt::format(what, std::forward<Args>(args)...));
  std::abort();
}

/// A set of numbers 0..count - 1.
inline gf::ChunkSet chunk_set(Input& input, unsigned count) {
  gf::ChunkSet set;
  for (unsigned first = 0; first < count; first += 8) {
    const auto bits = input.ConsumeIntegral<std::uint8_t>();
    for (unsigned i = 0; i < 8 && first + i < count; ++i)
      if ((bits >> i & 1) != 0) set.insert(first + i);
  }
  return set;
}

}  // namespace ec::fuzz

/// The entry point that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
