// The second opinion, by the definitions and without haste.
#include "tests/common/oracle.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace ec::test::oracle {
namespace {

using Table = std::array<std::array<std::uint8_t, 256>, 256>;

/// One bit at a time.
std::uint8_t mul_bitwise(std::uint8_t a, std::uint8_t b) {
  unsigned product = 0;
  for (unsigned bit = 0; bit < 8; ++bit)
    if (b >> bit & 1) product ^= unsigned{a} << bit;
  for (unsigned bit = 14; bit >= 8; --bit)
    if (product >> bit & 1) product ^= 0x11du << (bit - 8);
  return static_cast<std::uint8_t>(product);
}

/// All products, by mul_bitwise.
const Table& products() {
  static const Table table = [] {
    Table t;
    for (unsigned a = 0; a < 256; ++a)
      for (unsigned b = 0; b < 256; ++b)
        t[a][b] = mul_bitwise(static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b));
    return t;
  }();
  return table;
}

/// Steps to the next ascending choice of indices below n; false after the last.
bool next_choice(std::vector<unsigned>& chosen, unsigned n) {
  for (std::size_t i = chosen.size(); i-- > 0;)
    if (chosen[i] + (chosen.size() - i) < n) {
      std::iota(chosen.begin() + static_cast<std::ptrdiff_t>(i), chosen.end(), chosen[i] + 1);
      return true;
    }
  return false;
}

}  // namespace

std::uint8_t mul(std::uint8_t a, std::uint8_t b) { return products()[a][b]; }

std::uint8_t inverse(std::uint8_t a) {
  for (unsigned x = 1; x < 256; ++x)
    if (mul(a, static_cast<std::uint8_t>(x)) == 1) return static_cast<std::uint8_t>(x);
  return 0;
}

namespace {

std::uint8_t power(std::uint8_t a, unsigned n) {
  std::uint8_t result = 1;
  while (n-- > 0) result = mul(result, a);
  return result;
}

/// By cofactors along the first row; for matrices of a few rows.
std::uint8_t determinant(const Rows& a) {
  if (a.size() == 1) return a[0][0];
  if (a.size() == 2) return mul(a[0][0], a[1][1]) ^ mul(a[0][1], a[1][0]);
  if (a.size() == 3)
    return mul(a[0][0], mul(a[1][1], a[2][2]) ^ mul(a[1][2], a[2][1])) ^
           mul(a[0][1], mul(a[1][0], a[2][2]) ^ mul(a[1][2], a[2][0])) ^
           mul(a[0][2], mul(a[1][0], a[2][1]) ^ mul(a[1][1], a[2][0]));
  std::uint8_t sum = 0;  // Signs do not matter where -1 = 1.
  for (std::size_t c = 0; c < a.size(); ++c) {
    Rows rest(a.begin() + 1, a.end());
    for (auto& row : rest) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
    sum ^= mul(a[0][c], determinant(rest));
  }
  return sum;
}

Rows jerasure_reed_sol_van(unsigned k, unsigned m) {
  const unsigned n = k + m;
  Rows v(n, Bytes(k, 0));
  for (unsigned i = 0; i + 1 < n; ++i)
    for (unsigned c = 0; c < k; ++c) v[i][c] = c == 0 ? 1 : mul(v[i][c - 1], static_cast<std::uint8_t>(i));
  v[n - 1][k - 1] = 1;
  for (unsigned i = 0; i < k; ++i) {
    const auto scale = inverse(v[i][i]);
    for (auto& row : v) row[i] = mul(row[i], scale);
    for (unsigned c = 0; c < k; ++c) {
      const auto factor = v[i][c];
      if (c == i || factor == 0) continue;
      for (auto& row : v) row[c] ^= mul(factor, row[i]);
    }
  }
  Rows coding(v.begin() + k, v.end());
  for (unsigned c = 0; c < k; ++c) {
    const auto scale = inverse(coding[0][c]);
    for (auto& row : coding) row[c] = mul(row[c], scale);
  }
  for (auto& row : coding) {
    const auto scale = inverse(row[0]);
    for (auto& cell : row) cell = mul(cell, scale);
  }
  return coding;
}

}  // namespace

Rows coding_matrix(std::string_view technique, unsigned k, unsigned m) {
  Rows rows(m, Bytes(k, 1));
  if (m == 1) return rows;
  if (technique == "jerasure_reed_sol_van") return jerasure_reed_sol_van(k, m);
  for (unsigned r = 0; r < m; ++r)
    for (unsigned c = 0; c < k; ++c)
      rows[r][c] =
          technique == "cauchy" ? inverse(static_cast<std::uint8_t>((k + r) ^ c)) : power(power(2, r), c);
  return rows;
}

Rows generator(const Rows& coding) {
  const std::size_t k = coding.front().size();
  Rows rows(k, Bytes(k, 0));
  for (std::size_t i = 0; i < k; ++i) rows[i][i] = 1;
  rows.insert(rows.end(), coding.begin(), coding.end());
  return rows;
}
Rows generator(std::string_view technique, unsigned k, unsigned m) {
  return generator(coding_matrix(technique, k, m));
}

std::optional<Rows> invert(Rows a) {
  const std::size_t n = a.size();
  for (std::size_t r = 0; r < n; ++r) {
    a[r].resize(2 * n, 0);
    a[r][n + r] = 1;
  }
  for (std::size_t c = 0; c < n; ++c) {
    std::size_t pivot = c;
    while (pivot < n && a[pivot][c] == 0) ++pivot;
    if (pivot == n) return std::nullopt;
    std::swap(a[pivot], a[c]);
    const auto scale = inverse(a[c][c]);
    for (auto& cell : a[c]) cell = mul(cell, scale);
    for (std::size_t r = 0; r < n; ++r) {
      const auto factor = a[r][c];
      if (r == c || factor == 0) continue;
      for (std::size_t j = 0; j < 2 * n; ++j) a[r][j] ^= mul(factor, a[c][j]);
    }
  }
  for (auto& row : a) row.erase(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(n));
  return a;
}

bool every_minor_invertible(const Rows& coding) {
  const auto rows = static_cast<unsigned>(coding.size());
  const auto cols = static_cast<unsigned>(coding.front().size());
  for (unsigned size = 1; size <= std::min(rows, cols); ++size) {
    Rows minor(size, Bytes(size));
    std::vector<unsigned> r(size), c(size);
    std::iota(r.begin(), r.end(), 0);
    do {
      std::iota(c.begin(), c.end(), 0);
      do {
        for (unsigned i = 0; i < size; ++i)
          for (unsigned j = 0; j < size; ++j) minor[i][j] = coding[r[i]][c[j]];
        if (determinant(minor) == 0) return false;
      } while (next_choice(c, cols));
    } while (next_choice(r, rows));
  }
  return true;
}

std::optional<Rows> recovery_matrix(const Rows& generator, const std::vector<unsigned>& sources,
                                    const std::vector<unsigned>& targets) {
  Rows read;
  for (auto c : sources) read.push_back(generator[c]);
  const auto to_data = invert(std::move(read));
  if (!to_data) return std::nullopt;
  Rows wanted;
  for (auto c : targets) wanted.push_back(generator[c]);
  return oracle::apply(wanted, *to_data);
}

std::vector<Bytes> apply(const Rows& matrix, const std::vector<Bytes>& chunks) {
  std::vector<Bytes> result;
  for (const auto& row : matrix) {
    Bytes sum(chunks.front().size(), 0);
    for (std::size_t j = 0; j < chunks.size(); ++j) {
      const auto& times = products()[row[j]];
      const std::uint8_t* from = chunks[j].data();
      std::uint8_t* to = sum.data();
      for (std::size_t i = 0; i < chunks[j].size(); ++i) to[i] ^= times[from[i]];
    }
    result.push_back(std::move(sum));
  }
  return result;
}

}  // namespace ec::test::oracle
