// Stripes coded by the oracle, and views of their chunks as both doors take them.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ec/codec.hpp"
#include "ec/ec.h"
#include "tests/common/oracle.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {

constexpr std::string_view technique_name(Technique technique) {
  return technique == Technique::cauchy ? "cauchy" : "reed_sol_van";
}

/// `count` stripes of k + m chunks in pageable memory, and what their chunks have to be.
struct StripeSet {
  StripeSet(Technique technique_, unsigned k_, unsigned m_, std::size_t count, std::size_t bytes_,
            std::uint64_t seed)
      : technique(technique_), k(k_), m(m_), bytes(bytes_) {
    Random random(seed);
    for (std::size_t i = 0; i < count; ++i) intact.push_back(coded(random.chunks(k, bytes)));
    chunks = intact;
  }

  std::vector<oracle::Bytes> coded(std::vector<oracle::Bytes> data) const {
    for (auto& chunk : oracle::apply(oracle::coding_matrix(technique_name(technique), k, m), data))
      data.push_back(std::move(chunk));
    return data;
  }

  /// Makes every listed chunk wrong in every byte.
  void scramble(const std::vector<unsigned>& lost) {
    for (auto& stripe : chunks)
      for (const unsigned c : lost)
        for (auto& byte : stripe[c]) byte ^= 0x5a;
  }

  /// `intact` becomes what an update leaves whose delta is data chunk `chunk` itself: coding chunks as if
  /// that one held zeros.
  void expect_cleared(unsigned chunk) {
    for (auto& stripe : intact) {
      auto data = std::vector(stripe.begin(), stripe.begin() + k);
      auto old = std::exchange(data[chunk], oracle::Bytes(bytes));
      stripe = coded(std::move(data));
      stripe[chunk] = std::move(old);
    }
  }

  /// The listed chunks of every stripe, stripe after stripe. View: Source, Target, ec_source, ec_target.
  template <class View>
  std::vector<View> views(const std::vector<unsigned>& which) {
    std::vector<View> all;
    for (auto& stripe : chunks)
      for (const unsigned c : which) {
        if constexpr (requires { View::bytes; })
          all.emplace_back(stripe[c]);
        else
          all.push_back({stripe[c].data(), EC_PAGEABLE});
      }
    return all;
  }

  std::vector<unsigned> data_numbers() const { return numbers(0, k); }
  std::vector<unsigned> coding_numbers() const { return numbers(k, k + m); }
  static std::vector<unsigned> numbers(unsigned from, unsigned to) {
    std::vector<unsigned> all;
    for (unsigned c = from; c < to; ++c) all.push_back(c);
    return all;
  }

  Technique technique;
  unsigned k, m;
  std::size_t bytes;
  std::vector<std::vector<oracle::Bytes>>
      chunks;  ///< [stripe][chunk]: what the code under test reads and writes
  std::vector<std::vector<oracle::Bytes>> intact;  ///< [stripe][chunk]: what it has to be
};

/// The codec, or a failed test.
inline Codec made(unsigned k, unsigned m, Technique technique = Technique::reed_sol_van) {
  return std::move(Codec::create(k, m, technique)).value();
}

}  // namespace ec::test
