// Stripes coded by the oracle, and views of their chunks as any interface takes them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/common/oracle.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {

/// {from, .., to - 1}
inline std::vector<unsigned> numbers(unsigned from, unsigned to) {
  std::vector<unsigned> all;
  for (unsigned c = from; c < to; ++c) all.push_back(c);
  return all;
}

inline std::vector<unsigned> without(std::vector<unsigned> all, const std::vector<unsigned>& lost) {
  std::erase_if(all, [&](unsigned c) { return std::ranges::find(lost, c) != lost.end(); });
  return all;
}

inline void shuffle(std::vector<unsigned>& all, Random& random) {
  for (auto left = static_cast<unsigned>(all.size()); left > 1; --left)
    std::swap(all[left - 1], all[random.below(left)]);
}

/// Adds the listed chunks of one stripe. View: a range of bytes, or an address, of pageable memory.
template <class View, class Stripe, class Numbers>
void add_views(std::vector<View>& all, Stripe& stripe, const Numbers& which) {
  for (const auto c : which) {
    if constexpr (requires { View::bytes; }) {
      all.emplace_back(stripe[c]);
    } else {
      all.emplace_back().data = stripe[c].data();
    }
  }
}
template <class View, class Stripe, class Numbers = std::vector<unsigned>>
std::vector<View> views_of(Stripe& stripe, const Numbers& which) {
  std::vector<View> all;
  add_views(all, stripe, which);
  return all;
}

/// `count` stripes of k + m chunks in pageable memory, and what their chunks have to be.
struct StripeSet {
  StripeSet(oracle::Rows coding_rows, std::size_t count, std::size_t bytes_, std::uint64_t seed)
      : rows(std::move(coding_rows)),
        k(static_cast<unsigned>(rows.front().size())),
        m(static_cast<unsigned>(rows.size())),
        bytes(bytes_) {
    Random random(seed);
    for (std::size_t i = 0; i < count; ++i) intact.push_back(coded(random.chunks(k, bytes)));
    chunks = intact;
  }
  StripeSet(std::string_view technique, unsigned k_, unsigned m_, std::size_t count, std::size_t bytes_,
            std::uint64_t seed)
      : StripeSet(oracle::coding_matrix(technique, k_, m_), count, bytes_, seed) {}

  std::vector<oracle::Bytes> coded(std::vector<oracle::Bytes> data) const {
    for (auto& chunk : oracle::apply(rows, data)) data.push_back(std::move(chunk));
    return data;
  }

  /// Makes every listed chunk wrong in every byte.
  template <class Numbers = std::vector<unsigned>>
  void scramble(const Numbers& lost) {
    for (auto& stripe : chunks)
      for (const auto c : lost)
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

  /// The listed chunks of every stripe, stripe after stripe.
  template <class View, class Numbers = std::vector<unsigned>>
  std::vector<View> views(const Numbers& which) {
    std::vector<View> all;
    for (auto& stripe : chunks) add_views(all, stripe, which);
    return all;
  }

  std::vector<unsigned> data_numbers() const { return numbers(0, k); }
  std::vector<unsigned> coding_numbers() const { return numbers(k, k + m); }

  oracle::Rows rows;  ///< of the coding matrix
  unsigned k, m;
  std::size_t bytes;
  std::vector<std::vector<oracle::Bytes>>
      chunks;  ///< [stripe][chunk]: what the code under test reads and writes
  std::vector<std::vector<oracle::Bytes>> intact;  ///< [stripe][chunk]: what it has to be
};

}  // namespace ec::test
