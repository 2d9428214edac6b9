// One stripe in pageable memory, coded by the oracle.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/region.hpp"
#include "tests/common/oracle.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {

struct Stripe {
  Stripe(std::string_view technique_, unsigned k_, unsigned m_, std::size_t bytes, std::uint64_t seed)
      : technique(technique_), k(k_), m(m_), chunks(Random(seed).chunks(k_, bytes)) {
    code();
  }

  /// Puts new content into a data chunk and codes the stripe anew.
  void replace(unsigned chunk, oracle::Bytes content) {
    chunks.resize(k);
    chunks[chunk] = std::move(content);
    code();
  }
  void scramble(unsigned chunk) {
    for (auto& byte : chunks[chunk]) byte = static_cast<std::uint8_t>(byte * 3 + 101);
  }
  void scramble_coding() {
    for (unsigned c = k; c < k + m; ++c) scramble(c);
  }

  std::vector<kernels::Source> sources() const {
    std::vector<kernels::Source> all;
    for (const auto& chunk : chunks) all.push_back({chunk.data()});
    return all;
  }
  std::vector<kernels::Target> targets() {
    std::vector<kernels::Target> all;
    for (auto& chunk : chunks) all.push_back({chunk.data()});
    return all;
  }
  /// Those chunks alone.
  std::vector<kernels::Source> sources(const std::vector<std::uint8_t>& of) const {
    std::vector<kernels::Source> some;
    for (auto c : of) some.push_back({chunks[c].data()});
    return some;
  }
  std::vector<kernels::Target> targets(const std::vector<std::uint8_t>& of) {
    std::vector<kernels::Target> some;
    for (auto c : of) some.push_back({chunks[c].data()});
    return some;
  }
  std::vector<kernels::Source> data() const {
    auto all = sources();
    all.resize(k);
    return all;
  }
  std::vector<kernels::Target> coding() {
    auto all = targets();
    return {all.begin() + k, all.end()};
  }

  std::string_view technique;
  unsigned k, m;
  std::vector<oracle::Bytes> chunks;  ///< What the code under test reads and writes.
  std::vector<oracle::Bytes> intact;  ///< What it has to be.

 private:
  void code() {
    for (auto& chunk : oracle::apply(oracle::coding_matrix(technique, k, m), chunks)) chunks.push_back(chunk);
    intact = chunks;
  }
};

}  // namespace ec::test
