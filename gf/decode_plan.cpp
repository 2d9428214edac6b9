#include "gf/decode_plan.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "gf/gf256.hpp"

namespace ec::gf {
namespace {

using RowRoom = std::array<std::uint8_t, ChunkSet::capacity>;

/// A chunk that is read. `cell`: the same number for a data chunk; for a coding chunk the data chunk that it
/// gives.
struct Read {
  std::uint8_t cell, chunk;
};

/// The missing data chunks of a code as sums of its available chunks, as far as these give them. Each coding
/// chunk in turn, less the chunks known so far, gives one more missing chunk.
///
/// Chunks are rows of k cells. The cell of an available data chunk is its factor. The cell of a solved chunk
/// is the factor of the coding chunk that gives it: a solved chunk needs no cell of its own. The cells of
/// unsolved chunks are zero where the available chunks give the row's chunk.
class Solver {
 public:
  Solver(const Matrix& coding, const ChunkSet& available)
      : coding_(coding), rows_(std::min(coding.rows(), coding.cols()), coding.cols()) {
    const unsigned k = coding.cols();
    for (unsigned c = 0; c < k; ++c)
      if (const auto chunk = static_cast<std::uint8_t>(c); available.contains(c))
        reads_[known_++] = {chunk, chunk};
      else
        unsolved_[unsolved_count_++] = chunk;
    for (unsigned c = k; c < k + coding.rows() && unsolved_count_ != 0; ++c)
      if (available.contains(c)) add(c);
  }

  /// The chunks that are no sum of lower-numbered ones, data chunks first.
  std::span<const Read> reads() const { return {reads_.data(), known_ + solved_}; }

  /// The row of a chunk that is not available, maybe in `room`; empty if the available chunks do not give it.
  std::span<const std::uint8_t> row_of(unsigned chunk, RowRoom& room) const {
    const auto sum = std::span(room).first(coding_.cols());
    std::span<const std::uint8_t> row = sum;
    if (chunk >= coding_.cols()) {
      substitute(chunk, sum);
    } else {
      unsigned i = 0;
      while (i < solved_ && reads_[known_ + i].cell != chunk) ++i;
      if (i == solved_) return {};
      row = rows_.row(i);
    }
    return pivot_of(row) == unsolved_count_ ? row : std::span<const std::uint8_t>();
  }

 private:
  void substitute(unsigned chunk, std::span<std::uint8_t> row) const {
    const auto from = coding_.row(chunk - coding_.cols());
    const auto solved = reads().subspan(known_);
    std::ranges::copy(from, row.begin());
    for (const Read& read : solved) row[read.cell] = 0;
    for (unsigned i = 0; i < solved.size(); ++i) add_scaled(row, rows_.row(i), from[solved[i].cell]);
  }
  void add(unsigned chunk) {
    const auto row = rows_.row(solved_);
    substitute(chunk, row);
    const unsigned pivot = pivot_of(row);
    if (pivot == unsolved_count_) return;
    const std::uint8_t cell = std::exchange(unsolved_[pivot], unsolved_[unsolved_count_ - 1]);
    --unsolved_count_;
    const std::uint8_t scale = inv(std::exchange(row[cell], std::uint8_t{1}));
    for (std::uint8_t& factor : row) factor = mul(factor, scale);
    for (unsigned i = 0; i < solved_; ++i)
      if (const std::uint8_t factor = std::exchange(rows_(i, cell), std::uint8_t{0}); factor != 0)
        add_scaled(rows_.row(i), row, factor);
    reads_[known_ + solved_++] = {cell, static_cast<std::uint8_t>(chunk)};
  }
  /// The first of the unsolved chunks that is in the row; their number if none is.
  unsigned pivot_of(std::span<const std::uint8_t> row) const {
    unsigned i = 0;
    while (i < unsolved_count_ && row[unsolved_[i]] == 0) ++i;
    return i;
  }

  const Matrix& coding_;
  Matrix rows_;  ///< of the solved chunks
  unsigned known_ = 0, solved_ = 0, unsolved_count_ = 0;
  RowRoom unsolved_;
  std::array<Read, ChunkSet::capacity> reads_;  ///< known data chunks, then coding chunks
};

}  // namespace

std::optional<DecodePlan> make_decode_plan(const Matrix& coding, const ErasureSignature& signature) {
  const unsigned k = coding.cols();
  const ChunkSet& available = signature.available;
  DecodePlan plan;
  plan.targets.reserve(coding.rows());
  for (const unsigned target : signature.wanted - available)
    if (target < k + coding.rows()) plan.targets.push_back(static_cast<std::uint8_t>(target));
  if (plan.targets.empty()) return plan;
  const Solver solver(coding, available);
  const auto reads = solver.reads();
  Matrix all(static_cast<unsigned>(plan.targets.size()), static_cast<unsigned>(reads.size()));
  for (unsigned t = 0; t < all.rows(); ++t) {
    RowRoom room;
    const auto row = solver.row_of(plan.targets[t], room);
    if (row.empty()) return std::nullopt;
    std::ranges::transform(reads, all.row(t).begin(), [row](const Read& read) { return row[read.cell]; });
  }
  // Sources of which no target takes anything are left out. No factor in an MDS code is zero.
  RowRoom columns;
  plan.sources.reserve(k);
  for (unsigned s = 0; s < all.cols(); ++s) {
    unsigned t = 0;
    while (t < all.rows() && all(t, s) == 0) ++t;
    if (t == all.rows()) continue;
    columns[plan.sources.size()] = static_cast<std::uint8_t>(s);
    plan.sources.push_back(reads[s].chunk);
  }
  if (plan.sources.empty() && !available.empty()) {
    // Chunks may be zero whatever the data are: something has to be read all the same.
    plan.sources.push_back(static_cast<std::uint8_t>(*available.begin()));
    plan.matrix = Matrix(all.rows(), 1);
  } else if (plan.sources.size() == all.cols()) {
    plan.matrix = std::move(all);
  } else {
    plan.matrix = Matrix(all.rows(), static_cast<unsigned>(plan.sources.size()));
    for (unsigned t = 0; t < all.rows(); ++t)
      for (unsigned s = 0; s < plan.matrix.cols(); ++s) plan.matrix(t, s) = all(t, columns[s]);
  }
  return plan;
}

ChunkSet independent_chunks(const Matrix& coding, const ChunkSet& from) {
  const Solver solver(coding, from);
  ChunkSet independent;
  for (const Read& read : solver.reads()) independent.insert(read.chunk);
  return independent;
}

ChunkSet solvable_chunks(const Matrix& coding, const ErasureSignature& signature) {
  const Solver solver(coding, signature.available);
  ChunkSet solvable = signature.wanted & signature.available;
  RowRoom room;
  for (const unsigned c : signature.wanted - signature.available)
    if (!solver.row_of(c, room).empty()) solvable.insert(c);
  return solvable;
}

}  // namespace ec::gf
