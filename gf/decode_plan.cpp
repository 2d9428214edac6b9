#include "gf/decode_plan.hpp"

#include <algorithm>

#include "gf/gf256.hpp"

namespace ec::gf {
namespace {

/// The survivors a plan reads: all surviving data, then coding chunks, lowest first, one for each lost data
/// chunk.
struct Selection {
  std::vector<std::uint8_t> sources;
  std::vector<std::uint8_t> lost_data;
  std::vector<std::uint8_t> coding_used;
};

std::optional<Selection> select_sources(unsigned k, unsigned m, const ChunkSet& available) {
  Selection s;
  s.sources.reserve(k);
  s.lost_data.reserve(m);
  s.coding_used.reserve(m);
  for (unsigned c = 0; c < k; ++c)
    (available.contains(c) ? s.sources : s.lost_data).push_back(static_cast<std::uint8_t>(c));
  for (unsigned c = k; c < k + m && s.sources.size() < k; ++c)
    if (available.contains(c)) {
      s.sources.push_back(static_cast<std::uint8_t>(c));
      s.coding_used.push_back(static_cast<std::uint8_t>(c));
    }
  if (s.sources.size() < k) return std::nullopt;
  return s;
}

/// Every lost data chunk over the sources (e x k).
///   c_P = C[P,S] d_S + C[P,L] d_L   =>   d_L = C[P,L]^-1 (C[P,S] d_S + c_P)
std::optional<Matrix> solve_lost_data(const Matrix& coding, const Selection& s) {
  const unsigned k = coding.cols();
  const unsigned e = static_cast<unsigned>(s.lost_data.size());
  Matrix lost_columns(e, e);
  for (unsigned i = 0; i < e; ++i)
    for (unsigned j = 0; j < e; ++j) lost_columns(i, j) = coding(s.coding_used[i] - k, s.lost_data[j]);
  const auto inverse = invert(std::move(lost_columns));
  if (!inverse) return std::nullopt;

  Matrix solved(e, k);
  for (unsigned i = 0; i < e; ++i)
    for (unsigned t = 0; t < e; ++t) {
      const std::uint8_t factor = (*inverse)(i, t);
      const auto row = coding.row(s.coding_used[t] - k);
      for (unsigned j = 0; j < k - e; ++j) solved(i, j) ^= mul(factor, row[s.sources[j]]);
      solved(i, k - e + t) = factor;
    }
  return solved;
}

}  // namespace

std::optional<DecodePlan> make_decode_plan(const Matrix& coding, const ErasureSignature& signature) {
  const unsigned k = coding.cols();
  const unsigned m = coding.rows();
  DecodePlan plan;
  for (unsigned c : signature.wanted - signature.available)
    if (c < k + m) plan.targets.push_back(static_cast<std::uint8_t>(c));
  if (plan.targets.empty()) return plan;

  auto selection = select_sources(k, m, signature.available);
  if (!selection) return std::nullopt;
  auto lost_data = solve_lost_data(coding, *selection);
  if (!lost_data) return std::nullopt;
  if (plan.targets == selection->lost_data) {
    plan.matrix = std::move(*lost_data);
    plan.sources = std::move(selection->sources);
    return plan;
  }

  const unsigned e = lost_data->rows();
  plan.matrix = Matrix(static_cast<unsigned>(plan.targets.size()), k);
  for (unsigned t = 0; t < plan.targets.size(); ++t) {
    const unsigned target = plan.targets[t];
    if (target < k) {
      const auto at = std::lower_bound(selection->lost_data.begin(), selection->lost_data.end(), target);
      const unsigned row = static_cast<unsigned>(at - selection->lost_data.begin());
      for (unsigned j = 0; j < k; ++j) plan.matrix(t, j) = (*lost_data)(row, j);
      continue;
    }
    // A lost coding chunk: its row over the data, with the lost data replaced by what makes it.
    for (unsigned j = 0; j < k - e; ++j) plan.matrix(t, j) = coding(target - k, selection->sources[j]);
    for (unsigned i = 0; i < e; ++i) {
      const std::uint8_t factor = coding(target - k, selection->lost_data[i]);
      for (unsigned j = 0; j < k; ++j) plan.matrix(t, j) ^= mul(factor, (*lost_data)(i, j));
    }
  }
  plan.sources = std::move(selection->sources);
  return plan;
}

}  // namespace ec::gf
