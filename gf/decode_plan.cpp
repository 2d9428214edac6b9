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

/// Chunks as rows over the data, brought to echelon form one by one. Behind each row stand the added chunks
/// whose sum the row is.
class Echelon {
 public:
  explicit Echelon(const Matrix& coding) : coding_(coding), k_(coding.cols()) {}

  /// The chunk over the data, reduced by the chunks added. Behind the row stand the chunks whose sum the row
  /// is, this chunk among them.
  std::vector<std::uint8_t> reduced(unsigned chunk) const {
    std::vector<std::uint8_t> row(k_ + ChunkSet::capacity);
    if (chunk < k_)
      row[chunk] = 1;
    else
      std::ranges::copy(coding_.row(chunk - k_), row.begin());
    row[k_ + chunk] = 1;
    for (const auto& [pivot, there] : rows_)
      if (const std::uint8_t factor = row[pivot]; factor != 0) add_scaled(row, there, factor);
    return row;
  }
  bool is_zero(const std::vector<std::uint8_t>& row) const { return pivot_of(row) == k_; }
  /// False, and nothing is added, where the chunk is a sum of the chunks added before.
  bool add(unsigned chunk) {
    auto row = reduced(chunk);
    const unsigned pivot = pivot_of(row);
    if (pivot == k_) return false;
    const std::uint8_t scale = inv(row[pivot]);
    for (std::uint8_t& cell : row) cell = mul(cell, scale);
    rows_.emplace_back(pivot, std::move(row));
    return true;
  }

 private:
  unsigned pivot_of(const std::vector<std::uint8_t>& row) const {
    unsigned at = 0;
    while (at < k_ && row[at] == 0) ++at;
    return at;
  }

  const Matrix& coding_;
  unsigned k_;
  std::vector<std::pair<unsigned, std::vector<std::uint8_t>>> rows_;
};

}  // namespace

std::optional<DecodePlan> plan_by_any(const Matrix& coding, const ErasureSignature& signature) {
  const unsigned k = coding.cols();
  const ChunkSet all = ChunkSet::first(k + coding.rows());
  const ChunkSet available = signature.available & all;
  Echelon echelon(coding);
  for (const unsigned c : available) echelon.add(c);
  DecodePlan plan;
  std::vector<std::vector<std::uint8_t>> sums;
  ChunkSet read;
  for (const unsigned target : (signature.wanted & all) - available) {
    plan.targets.push_back(static_cast<std::uint8_t>(target));
    const auto& sum = sums.emplace_back(echelon.reduced(target));
    if (!echelon.is_zero(sum)) return std::nullopt;
    for (const unsigned c : available)
      if (sum[k + c] != 0) read.insert(c);
  }
  // A chunk may be zero whatever the data are: something has to be read all the same.
  if (read.empty() && !plan.targets.empty() && !available.empty()) read.insert(*available.begin());
  for (const unsigned c : read) plan.sources.push_back(static_cast<std::uint8_t>(c));
  plan.matrix = Matrix(static_cast<unsigned>(plan.targets.size()), read.count());
  for (unsigned t = 0; t < plan.targets.size(); ++t)
    for (unsigned s = 0; s < plan.sources.size(); ++s) plan.matrix(t, s) = sums[t][k + plan.sources[s]];
  return plan;
}

ChunkSet independent_chunks(const Matrix& coding, const ChunkSet& from) {
  Echelon echelon(coding);
  ChunkSet independent;
  for (const unsigned c : from)
    if (echelon.add(c)) independent.insert(c);
  return independent;
}

ChunkSet solvable_chunks(const Matrix& coding, const ErasureSignature& signature) {
  Echelon echelon(coding);
  for (const unsigned c : signature.available) echelon.add(c);
  ChunkSet solvable;
  for (const unsigned c : signature.wanted)
    if (echelon.is_zero(echelon.reduced(c))) solvable.insert(c);
  return solvable;
}

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
    // A lost coding chunk: its row over the data, with the solved rows in place of the lost data.
    const auto coding_row = coding.row(target - k);
    std::ranges::transform(selection.surviving_data(), row.begin(), [&](auto c) { return coding_row[c]; });
    for (unsigned i = 0; i < selection.lost; ++i) add_scaled(row, lost_data->row(i), coding_row[lost[i]]);
  }
  return plan;
}

}  // namespace ec::gf
