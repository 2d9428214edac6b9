#include "gf/cauchy_stages.hpp"

#include <algorithm>
#include <map>

#include "gf/gf256.hpp"

namespace ec::gf {
namespace {

constexpr std::uint8_t none = CauchyStages::none;

/// The product of all x + v, v < 2^log.
std::uint8_t vanishing(unsigned log, unsigned x) {
  std::uint8_t product = 1;
  for (unsigned v = 0; v < 1u << log; ++v) product = mul(product, static_cast<std::uint8_t>(x ^ v));
  return product;
}

/// The factor of a butterfly at level `log` of the transform at x.
std::uint8_t twiddle(unsigned log, unsigned x) {
  return mul(vanishing(log, x), inv(vanishing(log, 1u << log)));
}

/// Those of the inverse transform at `at`: level 0 first, in a level by place. The transform itself goes the
/// other way.
void add_twiddles(std::vector<std::uint8_t>& to, unsigned log_points, unsigned at, bool forward) {
  for (unsigned step = 0; step < log_points; ++step) {
    const unsigned level = forward ? log_points - 1 - step : step;
    for (unsigned place = 0; place < 1u << log_points; place += 2u << level)
      to.push_back(twiddle(level, at ^ place));
  }
}

/// What the matrix is made of, before blocks are chosen.
struct Structure {
  std::vector<std::uint8_t> data;   ///< chunk numbers of the columns that are data, first columns first
  std::vector<std::uint8_t> rows;   ///< chunk numbers of the rows in between: coding chunks
  std::vector<std::uint8_t> added;  ///< by row: the column of that chunk, if it is a source
  Matrix then;
};

/// Each point has one lane.
bool repeats(std::vector<std::uint8_t> points) {
  std::ranges::sort(points);
  return std::ranges::adjacent_find(points) != points.end();
}

/// Whether `matrix` is what the structure says in the columns of data; the others are in `then` as they are.
bool holds(const Matrix& matrix, const Structure& s) {
  for (unsigned t = 0; t < matrix.rows(); ++t)
    for (unsigned c = 0; c < s.data.size(); ++c) {
      const auto cell = [&](std::size_t row) { return inv(s.rows[row] ^ s.data[c]); };
      std::uint8_t sum = 0;
      if (s.then.rows() == 0)
        sum = cell(t);
      else
        for (unsigned r = 0; r < s.rows.size(); ++r) sum ^= mul(s.then(t, r), cell(r));
      if (sum != matrix(t, c)) return false;
    }
  return true;
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
  // Of a stripe with absent data chunks too, whose columns are fewer than the code's: all sources are data.
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
    s.then = Matrix(matrix.rows(), static_cast<unsigned>(s.rows.size()));
    for (unsigned t = 0, next = from_sources; t < matrix.rows(); ++t) {
      for (unsigned r = 0; r < from_sources; ++r) s.then(t, r) = matrix(t, s.added[r]);
      if (made[t] >= k) s.then(t, next++) = 1;
    }
  }
  if (repeats(s.rows) || repeats(s.data) || !holds(matrix, s)) return std::nullopt;
  return s;
}

CauchyStages stages_of(const Structure& s, unsigned log_points) {
  const unsigned points = 1u << log_points, low = points - 1;
  CauchyStages made;
  made.log_points = log_points;
  made.added = s.added;
  made.then = s.then;

  std::map<unsigned, std::vector<std::uint8_t>> row_blocks, source_blocks;
  const auto put = [&](auto& blocks, unsigned point, std::size_t what) {
    auto& lanes = blocks.try_emplace(point & ~low, points, none).first->second;
    lanes[point & low] = static_cast<std::uint8_t>(what);
  };
  for (std::size_t r = 0; r < s.rows.size(); ++r) put(row_blocks, s.rows[r], r);
  for (std::size_t c = 0; c < s.data.size(); ++c) put(source_blocks, s.data[c], c);

  std::uint8_t derivative = 1;
  for (unsigned v = 1; v < points; ++v) derivative = mul(derivative, static_cast<std::uint8_t>(v));
  const std::size_t rows = s.rows.size();
  const std::size_t block_products = log_points * points / 2 + row_blocks.size() * points;
  for (const auto& [at, lanes] : source_blocks) {
    const auto present = static_cast<std::size_t>(points - std::ranges::count(lanes, none));
    // Where rows and sources share a block, s is zero.
    if (row_blocks.contains(at) || present * rows <= block_products) {
      std::ranges::copy_if(lanes, std::back_inserter(made.rest), [](auto c) { return c != none; });
      continue;
    }
    made.lanes.insert(made.lanes.end(), lanes.begin(), lanes.end());
    add_twiddles(made.inverse, log_points, at, false);
    for (const auto& block : row_blocks)
      made.scales.push_back(mul(derivative, inv(vanishing(log_points, block.first ^ at))));
  }
  for (const auto& [at, lanes] : row_blocks) {
    made.places.insert(made.places.end(), lanes.begin(), lanes.end());
    add_twiddles(made.forward, log_points, at, true);
  }
  made.before = Matrix(static_cast<unsigned>(rows), static_cast<unsigned>(made.rest.size()));
  for (unsigned r = 0; r < rows; ++r)
    for (unsigned c = 0; c < made.rest.size(); ++c) made.before(r, c) = inv(s.rows[r] ^ s.data[made.rest[c]]);
  return made;
}

}  // namespace

unsigned CauchyStages::products() const {
  const std::size_t butterflies = log_points * points() / 2;
  return static_cast<unsigned>(source_blocks() * (butterflies + std::size_t{row_blocks()} * points()) +
                               row_blocks() * butterflies + before.cells().size() + then.cells().size());
}

std::optional<CauchyStages> cauchy_stages(const Matrix& matrix, std::span<const std::uint8_t> sources,
                                          std::span<const std::uint8_t> targets, unsigned most_log_points) {
  const auto structure = structure_of(matrix, sources, targets);
  if (!structure) return std::nullopt;
  std::optional<CauchyStages> best;
  for (unsigned log_points = 2; log_points <= most_log_points; ++log_points) {
    auto stages = stages_of(*structure, log_points);
    if (stages.source_blocks() > 0 && (!best || stages.products() < best->products()))
      best = std::move(stages);
  }
  return best;
}

}  // namespace ec::gf
