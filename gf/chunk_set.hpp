// Sets of chunk indices as bit sets, and the erasure signature made of two of them.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>

namespace ec::gf {

/// A set of chunk indices 0..255. Iteration is in ascending order.
class ChunkSet {
 public:
  static constexpr unsigned capacity = 256;

  constexpr ChunkSet() = default;
  constexpr ChunkSet(std::initializer_list<unsigned> chunks) {
    for (unsigned c : chunks) insert(c);
  }
  static constexpr ChunkSet of(const auto& chunks) {
    ChunkSet s;
    for (const unsigned c : chunks) s.insert(c);
    return s;
  }
  /// {0, 1, .., count - 1}
  static constexpr ChunkSet first(unsigned count) {
    ChunkSet s;
    for (auto& word : s.words_) {
      const unsigned bits = std::min(count, 64u);
      word = bits == 0 ? 0 : ~std::uint64_t{0} >> (64 - bits);
      count -= bits;
    }
    return s;
  }

  constexpr void insert(unsigned c) { words_[c / 64] |= std::uint64_t{1} << (c % 64); }
  constexpr void erase(unsigned c) { words_[c / 64] &= ~(std::uint64_t{1} << (c % 64)); }
  constexpr bool contains(unsigned c) const { return words_[c / 64] >> (c % 64) & 1; }
  constexpr unsigned count() const {
    unsigned n = 0;
    for (auto w : words_) n += static_cast<unsigned>(std::popcount(w));
    return n;
  }
  constexpr bool empty() const {
    std::uint64_t any = 0;
    for (auto w : words_) any |= w;
    return any == 0;
  }
  constexpr bool includes(const ChunkSet& o) const { return (o - *this).empty(); }

  friend constexpr ChunkSet operator&(ChunkSet a, const ChunkSet& b) {
    for (unsigned i = 0; i < a.words_.size(); ++i) a.words_[i] &= b.words_[i];
    return a;
  }
  friend constexpr ChunkSet operator-(ChunkSet a, const ChunkSet& b) {
    for (unsigned i = 0; i < a.words_.size(); ++i) a.words_[i] &= ~b.words_[i];
    return a;
  }
  friend constexpr bool operator==(const ChunkSet&, const ChunkSet&) = default;

  class Iterator {
   public:
    using value_type = unsigned;
    constexpr explicit Iterator(const ChunkSet& set) : set_(set), rest_(set.words_[0]) { skip(); }
    constexpr unsigned operator*() const { return 64 * at_ + static_cast<unsigned>(std::countr_zero(rest_)); }
    constexpr Iterator& operator++() {
      rest_ &= rest_ - 1;
      skip();
      return *this;
    }
    friend constexpr bool operator==(const Iterator& at, std::default_sentinel_t) { return at.rest_ == 0; }

   private:
    /// To a word with members, or to the end.
    constexpr void skip() {
      while (rest_ == 0 && ++at_ < set_.words_.size()) rest_ = set_.words_[at_];
    }

    const ChunkSet& set_;
    unsigned at_ = 0;
    std::uint64_t rest_;  ///< the members in this word that are still to come
  };
  constexpr Iterator begin() const { return Iterator(*this); }
  constexpr std::default_sentinel_t end() const { return {}; }

  constexpr std::size_t hash() const {
    std::uint64_t h = 0x9e3779b97f4a7c15;
    for (auto w : words_) h = (h ^ (w ^ w >> 31)) * 0xff51afd7ed558ccd;
    return static_cast<std::size_t>(h ^ h >> 33);
  }

 private:
  std::array<std::uint64_t, capacity / 64> words_{};
};

/// The surviving chunks and the wanted ones: a decode plan depends on them and on the code alone.
struct ErasureSignature {
  ChunkSet available;
  ChunkSet wanted;

  friend bool operator==(const ErasureSignature&, const ErasureSignature&) = default;
  std::size_t hash() const { return available.hash() * 31 + wanted.hash(); }
};

}  // namespace ec::gf
