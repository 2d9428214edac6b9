#include "gf/cauchy_stages.hpp"

#include <algorithm>
#include <map>

#include "gf/chunk_set.hpp"
#include "gf/gf256.hpp"

namespace ec::gf {
namespace {

constexpr std::uint8_t none = CauchyStages::none;

/// The product of all x + v, first <= v < 2^log: of all v it is s(x), s being the polynomial of the 2^log
/// points.
constexpr std::uint8_t vanishing(unsigned log, unsigned x, unsigned first = 0) {
  std::uint8_t product = 1;
  for (unsigned v = first; v < 1u << log; ++v) product = mul(product, static_cast<std::uint8_t>(x ^ v));
  return product;
}
/// The derivative of s: its linear coefficient.
constexpr std::uint8_t derivative(unsigned log) { return vanishing(log, 0, 1); }

/// The factor of a butterfly at level `log` of the transform at x.
std::uint8_t twiddle(unsigned log, unsigned x) {
  return mul(vanishing(log, x), inv(vanishing(log, 1u << log)));
}

/// The factors of the inverse transform at `at`: level 0 first, in a level by place. The transform itself
/// goes from the last level to the first.
void add_twiddles(std::vector<std::uint8_t>& to, unsigned log_points, unsigned at, bool forward) {
  for (unsigned step = 0; step < log_points; ++step) {
    const unsigned level = forward ? log_points - 1 - step : step;
    for (unsigned place = 0; place < 1u << log_points; place += 2u << level)
      to.push_back(twiddle(level, at ^ place));
  }
}

/// The parts of the matrix, before blocks are chosen.
struct Structure {
  std::vector<std::uint8_t> data;   ///< chunk numbers of the columns that are data, first columns first
  std::vector<std::uint8_t> rows;   ///< chunk numbers of the rows in between: coding chunks
  std::vector<std::uint8_t> added;  ///< by row: the column of the row's chunk, if that chunk is a source
  Matrix then;
  std::vector<std::uint8_t> targets;  ///< chunk numbers of the rows of `then`
  /// Factors of rows and columns that make `then` of the Cauchy matrix between them; empty: there are none.
  std::vector<std::uint8_t> target_factors, row_factors;
};

/// Each point has one lane.
bool repeats(const std::vector<std::uint8_t>& points) {
  return ChunkSet::of(points).count() != points.size();
}

/// The Cauchy matrix of rows and columns at these points.
Matrix cauchy_of_points(const std::vector<std::uint8_t>& rows, const std::vector<std::uint8_t>& columns) {
  Matrix matrix(static_cast<unsigned>(rows.size()), static_cast<unsigned>(columns.size()));
  for (unsigned r = 0; r < matrix.rows(); ++r)
    for (unsigned c = 0; c < matrix.cols(); ++c) matrix(r, c) = inv(rows[r] ^ columns[c]);
  return matrix;
}

/// Whether `matrix` is as the structure says in the columns of data; `then` has the other columns unchanged.
bool holds(const Matrix& matrix, const Structure& s) {
  const Matrix cauchy = cauchy_of_points(s.rows, s.data);
  const unsigned columns = cauchy.cols();
  for (unsigned t = 0; t < matrix.rows(); ++t) {
    std::vector<std::uint8_t> sums(columns);
    if (s.then.rows() == 0)
      std::ranges::copy(cauchy.row(t), sums.begin());
    else
      for (unsigned r = 0; r < cauchy.rows(); ++r) add_scaled(sums, cauchy.row(r), s.then(t, r));
    if (!std::ranges::equal(sums, matrix.row(t).first(columns))) return false;
  }
  return true;
}

/// Finds the factors from the first column and the first row, then checks them cell by cell.
void find_factors(Structure& s) {
  const auto times_sum = [&](unsigned t, unsigned r) { return mul(s.then(t, r), s.targets[t] ^ s.rows[r]); };
  std::vector<std::uint8_t> targets, rows;
  for (unsigned t = 0; t < s.then.rows(); ++t) targets.push_back(times_sum(t, 0));
  if (targets.front() == 0) return;
  for (unsigned r = 0; r < s.then.cols(); ++r) rows.push_back(mul(times_sum(0, r), inv(targets[0])));
  for (unsigned t = 0; t < s.then.rows(); ++t)
    for (unsigned r = 0; r < s.then.cols(); ++r)
      if (s.targets[t] == s.rows[r] || times_sum(t, r) != mul(targets[t], rows[r])) return;
  s.target_factors = std::move(targets);
  s.row_factors = std::move(rows);
}

std::optional<Structure> structure_of(const Matrix& matrix, std::span<const std::uint8_t> sources,
                                      std::span<const std::uint8_t> targets) {
  const unsigned k = matrix.cols();
  if (k == 0 || matrix.rows() == 0) return std::nullopt;
  Structure s;
  std::vector<std::uint8_t> made(targets.begin(), targets.end());
  if (sources.empty()) {
    for (unsigned c = 0; c < k; ++c) s.data.push_back(static_cast<std::uint8_t>(c));
    for (unsigned t = 0; t < matrix.rows(); ++t) made.push_back(inv(matrix(t, 0)));
  }
  if ((!sources.empty() && sources.size() != k) || made.size() != matrix.rows()) return std::nullopt;
  // A stripe may lack data chunks and have fewer columns than the code: then all sources are data.
  const bool encodes = !sources.empty() && sources.back() < made.front();
  for (const std::uint8_t source : sources)
    if (source < k || encodes)
      s.data.push_back(source);
    else
      s.rows.push_back(source);
  for (std::size_t r = 0; r < s.rows.size(); ++r)
    s.added.push_back(static_cast<std::uint8_t>(s.data.size() + r));
  const unsigned from_sources = static_cast<unsigned>(s.rows.size());
  for (const std::uint8_t target : made)
    if (target >= k) s.rows.push_back(target);
  s.added.resize(s.rows.size(), none);
  if (s.rows.empty() || s.rows.size() > CauchyStages::max_rows) return std::nullopt;
  if (from_sources == 0) {
    if (s.rows.size() != made.size()) return std::nullopt;
  } else {
    s.targets = made;
    s.then = Matrix(matrix.rows(), static_cast<unsigned>(s.rows.size()));
    for (unsigned t = 0, next = from_sources; t < matrix.rows(); ++t) {
      for (unsigned r = 0; r < from_sources; ++r) s.then(t, r) = matrix(t, s.added[r]);
      if (made[t] >= k) s.then(t, next++) = 1;
    }
  }
  if (repeats(s.rows) || repeats(s.data) || !holds(matrix, s)) return std::nullopt;
  if (s.then.rows() != 0 && !repeats(s.targets)) find_factors(s);
  return s;
}

/// By first point of an aligned block: the number of the point in each lane.
using Blocks = std::map<unsigned, std::vector<std::uint8_t>>;

Blocks blocks_of(const std::vector<std::uint8_t>& points, unsigned log_points) {
  const unsigned low = (1u << log_points) - 1;
  Blocks blocks;
  for (std::size_t i = 0; i < points.size(); ++i) {
    auto& lanes = blocks.try_emplace(points[i] & ~low, low + 1, none).first->second;
    lanes[points[i] & low] = static_cast<std::uint8_t>(i);
  }
  return blocks;
}

/// The factor of the sums from one block to another: c / s(p + a) of the header.
std::uint8_t scale(unsigned log_points, unsigned row_block, unsigned source_block) {
  return mul(derivative(log_points), inv(vanishing(log_points, row_block ^ source_block)));
}

std::size_t solution_products(unsigned log_points, std::size_t row_blocks, std::size_t target_blocks) {
  const std::size_t points = std::size_t{1} << log_points, butterflies = log_points * points / 2;
  return (row_blocks + target_blocks) * (points + butterflies) + target_blocks * (row_blocks - 1) * points;
}

CauchySolution solution_of(const Structure& s, const Blocks& row_blocks, unsigned log_points) {
  if (s.row_factors.empty()) return {};
  const Blocks target_blocks = blocks_of(s.targets, log_points);
  if (solution_products(log_points, row_blocks.size(), target_blocks.size()) >= s.then.cells().size())
    return {};
  CauchySolution made;
  for (const auto& [at, lanes] : row_blocks) {
    if (target_blocks.contains(at)) return {};
    for (const std::uint8_t row : lanes) made.row_factors.push_back(row == none ? 0 : s.row_factors[row]);
    add_twiddles(made.inverse, log_points, at, false);
  }
  const unsigned first_rows = row_blocks.begin()->first;
  for (const auto& [at, lanes] : target_blocks) {
    const std::uint8_t first = scale(log_points, at, first_rows);
    for (const auto& rows : row_blocks)
      if (rows.first != first_rows) made.scales.push_back(mul(scale(log_points, at, rows.first), inv(first)));
    add_twiddles(made.forward, log_points, at, true);
    for (const std::uint8_t target : lanes)
      made.target_factors.push_back(target == none ? 0 : mul(first, s.target_factors[target]));
    made.places.insert(made.places.end(), lanes.begin(), lanes.end());
  }
  return made;
}

CauchyStages stages_of(const Structure& s, unsigned log_points) {
  const unsigned points = 1u << log_points;
  CauchyStages made;
  made.log_points = log_points;
  made.added = s.added;
  made.then = s.then;

  const Blocks row_blocks = blocks_of(s.rows, log_points);
  const std::size_t rows = s.rows.size();
  const std::size_t block_products = log_points * points / 2 + row_blocks.size() * points;
  for (const auto& [at, lanes] : blocks_of(s.data, log_points)) {
    const auto present = static_cast<std::size_t>(points - std::ranges::count(lanes, none));
    // Where rows and sources share a block, s is zero.
    if (row_blocks.contains(at) || present * rows <= block_products) {
      std::ranges::copy_if(lanes, std::back_inserter(made.rest), [](auto c) { return c != none; });
      continue;
    }
    made.lanes.insert(made.lanes.end(), lanes.begin(), lanes.end());
    add_twiddles(made.inverse, log_points, at, false);
    for (const auto& block : row_blocks) made.scales.push_back(scale(log_points, block.first, at));
  }
  for (const auto& [at, lanes] : row_blocks) {
    made.places.insert(made.places.end(), lanes.begin(), lanes.end());
    add_twiddles(made.forward, log_points, at, true);
  }
  std::vector<std::uint8_t> rest_points;
  for (const std::uint8_t column : made.rest) rest_points.push_back(s.data[column]);
  made.before = cauchy_of_points(s.rows, rest_points);
  made.solution = solution_of(s, row_blocks, log_points);
  return made;
}

/// The work by which a length of blocks is chosen: each source is added to a sum in each block of rows.
std::size_t work(const CauchyStages& stages) {
  return stages.products() + stages.lanes.size() * stages.row_blocks();
}

}  // namespace

unsigned CauchySolution::products(unsigned log_points) const {
  return static_cast<unsigned>(
      solution_products(log_points, row_factors.size() >> log_points, target_factors.size() >> log_points));
}

unsigned CauchyStages::products() const {
  const std::size_t butterflies = log_points * points() / 2;
  return static_cast<unsigned>(source_blocks() * (butterflies + std::size_t{row_blocks()} * points()) +
                               row_blocks() * butterflies + before.cells().size() +
                               (solution.exists() ? solution.products(log_points) : then.cells().size()));
}

std::optional<CauchyStages> cauchy_stages(const Matrix& matrix, std::span<const std::uint8_t> sources,
                                          std::span<const std::uint8_t> targets, unsigned most_log_points) {
  const auto structure = structure_of(matrix, sources, targets);
  if (!structure) return std::nullopt;
  std::optional<CauchyStages> best;
  for (unsigned log_points = 2; log_points <= most_log_points; ++log_points) {
    auto stages = stages_of(*structure, log_points);
    if (stages.source_blocks() > 0 && (!best || work(stages) <= work(*best))) best = std::move(stages);
  }
  return best;
}

}  // namespace ec::gf
