#include "gf/mds.hpp"

#include <array>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>

namespace ec::gf {
namespace {

constexpr double most_tried = 100'000;
constexpr unsigned sampled = 20'000;

/// Whether no cell is zero, and the matrix of the inverses has rank 2 and no singular 2 x 2 minor.
bool is_generalized_cauchy(const Matrix& coding) {
  const unsigned m = coding.rows(), k = coding.cols();
  Matrix inverse = coding;
  for (unsigned r = 0; r < m; ++r)
    for (std::uint8_t& cell : inverse.row(r)) {
      if (cell == 0) return false;
      cell = inv(cell);
    }
  if (m == 1 || k == 1) return true;
  // Rows, then columns: each has its own ratio of the first two cells, so no minor of rank 2 is singular.
  const auto differ = [](unsigned count, auto&& ratio) {
    std::array<bool, 256> seen{};
    for (unsigned i = 0; i < count; ++i)
      if (std::exchange(seen[ratio(i)], true)) return false;
    return true;
  };
  if (!differ(m, [&](unsigned r) { return mul(inverse(r, 0), inv(inverse(r, 1))); }) ||
      !differ(k, [&](unsigned c) { return mul(inverse(0, c), inv(inverse(1, c))); }))
    return false;
  // Rank 2: each row is a sum of the first two rows, and the first two columns give the two factors.
  const std::uint8_t scale = inv(mul(inverse(0, 0), inverse(1, 1)) ^ mul(inverse(0, 1), inverse(1, 0)));
  for (unsigned r = 2; r < m; ++r) {
    const std::uint8_t of_first =
        mul(scale, mul(inverse(r, 0), inverse(1, 1)) ^ mul(inverse(r, 1), inverse(1, 0)));
    const std::uint8_t of_second =
        mul(scale, mul(inverse(r, 0), inverse(0, 1)) ^ mul(inverse(r, 1), inverse(0, 0)));
    for (unsigned c = 2; c < k; ++c)
      if ((mul(of_first, inverse(0, c)) ^ mul(of_second, inverse(1, c))) != inverse(r, c)) return false;
  }
  return true;
}

bool is_singular(Matrix a) {
  for (unsigned i = 0; i < a.rows(); ++i) {
    unsigned pivot = i;
    while (pivot < a.rows() && a(pivot, i) == 0) ++pivot;
    if (pivot == a.rows()) return true;
    if (pivot != i) std::ranges::swap_ranges(a.row(i), a.row(pivot));
    const std::uint8_t scale = inv(a(i, i));
    for (unsigned r = i + 1; r < a.rows(); ++r)
      add_scaled(a.row(r).subspan(i), a.row(i).subspan(i), mul(a(r, i), scale));
  }
  return false;
}

/// Whether the data cannot be made without the chunks `lost`, m of them, ascending.
bool cannot_lose(const Matrix& coding, const std::vector<unsigned>& lost) {
  const unsigned k = coding.cols();
  const auto data = static_cast<unsigned>(std::ranges::lower_bound(lost, k) - lost.begin());
  Matrix minor(data, data);
  unsigned row = 0;
  for (unsigned r = 0; r < coding.rows() && row < data; ++r) {
    if (std::ranges::binary_search(lost, k + r)) continue;
    for (unsigned i = 0; i < data; ++i) minor(row, i) = coding(r, lost[i]);
    ++row;
  }
  return is_singular(std::move(minor));
}

}  // namespace

double choices(unsigned n, unsigned chosen) {
  double count = 1;
  for (unsigned i = 1; i <= chosen; ++i) count = count * (n - chosen + i) / i;
  return count;
}

bool next_choice(std::vector<unsigned>& chosen, unsigned n) {
  for (std::size_t i = chosen.size(); i-- > 0;)
    if (chosen[i] + (chosen.size() - i) < n) {
      std::iota(chosen.begin() + static_cast<std::ptrdiff_t>(i), chosen.end(), chosen[i] + 1);
      return true;
    }
  return false;
}

Mds check_mds(const Matrix& coding) {
  if (is_generalized_cauchy(coding)) return {std::nullopt, true};
  const unsigned k = coding.cols(), m = coding.rows(), n = k + m;
  std::vector<unsigned> lost(m);
  if (choices(n, m) <= most_tried) {
    std::iota(lost.begin(), lost.end(), 0u);
    do {
      if (cannot_lose(coding, lost)) return {ChunkSet::of(lost), true};
    } while (next_choice(lost, n));
    return {std::nullopt, true};
  }
  std::minstd_rand random(1);
  std::vector<unsigned> all(n);
  for (unsigned i = 0; i < sampled; ++i) {
    // So many data chunks, 1 to m, and the rest coding chunks: small minors are as likely as large ones.
    const unsigned data = 1 + static_cast<unsigned>(random() % std::min(k, m));
    std::iota(all.begin(), all.end(), 0u);
    std::shuffle(all.begin(), all.begin() + k, random);
    std::shuffle(all.begin() + k, all.end(), random);
    std::copy_n(all.begin(), data, lost.begin());
    std::copy_n(all.begin() + k, m - data, lost.begin() + data);
    std::ranges::sort(lost);
    if (cannot_lose(coding, lost)) return {ChunkSet::of(lost), true};
  }
  return {};
}

}  // namespace ec::gf
