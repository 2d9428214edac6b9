#include "gf/decode_plan.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "gf/gf256.hpp"

namespace ec::gf {
namespace {

using ChunkArray = std::array<std::uint8_t, ChunkSet::capacity>;

/// The survivors a plan reads: all surviving data, then coding chunks, lowest first, one for each lost data
/// chunk.
struct Selection {
  ChunkArray sources;
  ChunkArray lost_data;
  unsigned surviving = 0;  ///< data chunks among the sources
  unsigned lost = 0;

  std::span<const std::uint8_t> surviving_data() const { return {sources.data(), surviving}; }
  std::span<const std::uint8_t> coding_used() const { return {sources.data() + surviving, lost}; }
  std::span<const std::uint8_t> lost_chunks() const { return {lost_data.data(), lost}; }
};

/// False if fewer than k are available.
bool select_sources(unsigned k, unsigned m, const ChunkSet& available, Selection& s) {
  for (unsigned c = 0; c < k; ++c)
    if (available.contains(c))
      s.sources[s.surviving++] = static_cast<std::uint8_t>(c);
    else
      s.lost_data[s.lost++] = static_cast<std::uint8_t>(c);
  unsigned count = s.surviving;
  for (unsigned c = k; c < k + m && count < k; ++c)
    if (available.contains(c)) s.sources[count++] = static_cast<std::uint8_t>(c);
  return count == k;
}

/// Every lost data chunk over the sources (e x k).
///   c_P = C[P,S] d_S + C[P,L] d_L   =>   d_L = C[P,L]^-1 (C[P,S] d_S + c_P)
std::optional<Matrix> solve_lost_data(const Matrix& coding, const Selection& s) {
  const unsigned k = coding.cols();
  Matrix solved(s.lost, k);
  for (unsigned i = 0; i < s.lost; ++i) {
    const auto from = coding.row(s.coding_used()[i] - k);
    std::uint8_t* to = solved.row(i).data();
    for (auto c : s.surviving_data()) *to++ = from[c];
    for (auto c : s.lost_chunks()) *to++ = from[c];
  }
  if (!solve_last_columns(solved)) return std::nullopt;
  return solved;
}

}  // namespace

std::optional<DecodePlan> make_decode_plan(const Matrix& coding, const ErasureSignature& signature) {
  const unsigned k = coding.cols();
  const unsigned m = coding.rows();
  DecodePlan plan;
  const ChunkSet targets = signature.wanted - signature.available;
  plan.targets.reserve(targets.count());
  for (unsigned c : targets)
    if (c < k + m) plan.targets.push_back(static_cast<std::uint8_t>(c));
  if (plan.targets.empty()) return plan;

  Selection selection;
  if (!select_sources(k, m, signature.available, selection)) return std::nullopt;
  auto lost_data = solve_lost_data(coding, selection);
  if (!lost_data) return std::nullopt;
  plan.sources.assign(selection.sources.begin(), selection.sources.begin() + k);
  const auto lost = selection.lost_chunks();
  if (std::ranges::equal(plan.targets, lost)) {
    plan.matrix = std::move(*lost_data);
    return plan;
  }

  plan.matrix = Matrix(static_cast<unsigned>(plan.targets.size()), k);
  for (unsigned t = 0; t < plan.targets.size(); ++t) {
    const unsigned target = plan.targets[t];
    const auto row = plan.matrix.row(t);
    if (target < k) {
      const auto at = std::ranges::lower_bound(lost, target);
      std::ranges::copy(lost_data->row(static_cast<unsigned>(at - lost.begin())), row.begin());
      continue;
    }
    // A lost coding chunk: its row over the data, with the lost data replaced by what makes it.
    const auto coding_row = coding.row(target - k);
    std::ranges::transform(selection.surviving_data(), row.begin(), [&](auto c) { return coding_row[c]; });
    for (unsigned i = 0; i < selection.lost; ++i) add_scaled(row, lost_data->row(i), coding_row[lost[i]]);
  }
  return plan;
}

}  // namespace ec::gf
