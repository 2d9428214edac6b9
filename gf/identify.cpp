#include "gf/identify.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "gf/generator.hpp"
#include "gf/gf256.hpp"
#include "gf/mds.hpp"

namespace ec::gf {
namespace {

using Row = std::vector<std::uint8_t>;
using Checks = std::vector<Row>;
using Cells = std::span<const std::uint8_t>;

constexpr unsigned spare_columns = 16;  // columns beyond the rank; by accident, one in 256 obeys a check
constexpr unsigned most_missing = 4;    // missing chunks, before no dialect is said to fit
constexpr unsigned sampled_columns = 1024, most_counts = 16;
constexpr double most_placings = 5e7;  // placings of two shards among the chunks; about a second

std::uint8_t dot(Cells a, Cells b) {
  std::uint8_t sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum ^= mul(a[i], b[i]);
  return sum;
}

Checks all_checks(unsigned n) {
  Checks checks(n, Row(n));
  for (unsigned i = 0; i < n; ++i) checks[i][i] = 1;
  return checks;
}

/// Leaves the combinations of the checks that the column obeys: as many checks, or one fewer.
void narrow(Checks* checks, Cells column) {
  auto first = checks->end();
  std::uint8_t scale = 0;
  for (auto check = checks->begin(); check != checks->end(); ++check) {
    const std::uint8_t sum = dot(*check, column);
    if (sum == 0) continue;
    if (first == checks->end()) {
      first = check;
      scale = inv(sum);
    } else {
      add_scaled(*check, *first, mul(sum, scale));
    }
  }
  if (first != checks->end()) checks->erase(first);
}

bool obeys(const Checks& checks, Cells column) {
  return std::ranges::all_of(checks, [&](const Row& check) { return dot(check, column) == 0; });
}

/// Solves the checks for one shard each, the last possible shards. Returns these shards, ascending.
std::vector<unsigned> solve(Checks* checks) {
  std::vector<unsigned> solved;
  for (unsigned c = checks->empty() ? 0 : static_cast<unsigned>(checks->front().size()); c-- > 0;) {
    const auto done = static_cast<std::ptrdiff_t>(solved.size());
    const auto pivot =
        std::find_if(checks->begin() + done, checks->end(), [c](auto& row) { return row[c] != 0; });
    if (pivot == checks->end()) continue;
    std::swap(*pivot, (*checks)[solved.size()]);
    Row& row = (*checks)[solved.size()];
    const std::uint8_t scale = inv(row[c]);
    for (std::uint8_t& cell : row) cell = mul(cell, scale);
    for (Row& other : *checks)
      if (&other != &row && other[c] != 0) add_scaled(other, row, std::uint8_t{other[c]});
    solved.push_back(c);
  }
  std::ranges::reverse(*checks);
  std::ranges::reverse(solved);
  return solved;
}

/// The shards in any check.
std::vector<unsigned> covered(const Checks& checks, unsigned n) {
  std::vector<unsigned> shards;
  for (unsigned c = 0; c < n; ++c)
    if (std::ranges::any_of(checks, [c](const Row& check) { return check[c] != 0; })) shards.push_back(c);
  return shards;
}

/// The matrix of the last shards of an MDS code, for which the checks are solved, over the first ones;
/// nothing if the code is not MDS.
std::optional<Matrix> coding_of(const Checks& checks, std::span<const unsigned> first) {
  Matrix coding(static_cast<unsigned>(checks.size()), static_cast<unsigned>(first.size()));
  for (unsigned r = 0; r < coding.rows(); ++r)
    for (unsigned c = 0; c < coding.cols(); ++c) coding(r, c) = checks[r][first[c]];
  if (check_mds(coding).unsolvable) return std::nullopt;
  return coding;
}

using Order = std::vector<unsigned>;

/// Which chunks of one dialect, k + m, the shards are: the first k, and the ones that `coding` makes of them.
class Matcher {
 public:
  Matcher(const Matrix& coding, const Matrix& dialect)
      : coding_(coding),
        dialect_(dialect),
        k_(coding.cols()),
        all_(k_ + dialect.rows()),
        first_(1u << 16, none) {}

  /// An order that keeps the shards as they are given.
  std::optional<Order> as_given() const {
    const unsigned n = k_ + coding_.rows();
    // At most all_ - n of the first k chunks are coding chunks, each a row of k cells.
    if (choices(all_, n) * k_ * (all_ - n + 1) > most_placings) return std::nullopt;
    Order numbers(n);
    std::iota(numbers.begin(), numbers.end(), 0u);
    do {
      Order order(numbers.begin(), numbers.begin() + k_);
      if (complete(&order) && order == numbers) return order;
    } while (next_choice(numbers, all_));
    return std::nullopt;
  }

  bool can_search() const {
    const unsigned chosen = k_ + dimensions();
    return choices(all_, chosen) * chosen * (dimensions() == 2 ? chosen : 1) <= most_placings;
  }

  /// Orders that fit, at most two of them.
  std::vector<Order> search() {
    std::vector<unsigned> chunks(k_ + dimensions());
    std::iota(chunks.begin(), chunks.end(), 0u);
    do {
      search_in(chunks);
    } while (found_.size() < 2 && next_choice(chunks, all_));
    return found_;
  }

 private:
  static constexpr std::uint8_t none = 255;
  unsigned dimensions() const { return std::min(coding_.rows(), 2u); }

  /// Two checks (or one) hold these chunks together, and the first k + 2 shards too: each shard has a vector
  /// of two cells in the checks. If two shards are known, a linear map finds the chunk of every other shard.
  void search_in(const std::vector<unsigned>& chunks) {
    std::vector<unsigned> rows;
    for (const unsigned chunk : chunks)
      if (chunk >= k_) rows.push_back(chunk - k_);
    // Sums of the coding chunks without the absent data chunks.
    Checks sums = all_checks(static_cast<unsigned>(rows.size()));
    Row column(rows.size());
    const auto column_of = [&](unsigned data) {
      for (std::size_t i = 0; i < rows.size(); ++i) column[i] = dialect_(rows[i], data);
    };
    for (unsigned data = 0; data < k_; ++data) {
      if (std::ranges::binary_search(chunks, data)) continue;
      column_of(data);
      narrow(&sums, column);
    }
    if (sums.size() != dimensions()) return;
    std::vector<std::array<std::uint8_t, 2>> vectors(chunks.size());
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (chunks[i] < k_) column_of(chunks[i]);
      for (std::size_t d = 0; d < sums.size(); ++d)
        vectors[i][d] = chunks[i] < k_ ? dot(sums[d], column) : sums[d][i - (chunks.size() - rows.size())];
    }
    next_.assign(chunks.size(), none);
    for (std::size_t i = 0; i < chunks.size(); ++i)
      next_[i] = std::exchange(first_[key(vectors[i])], static_cast<std::uint8_t>(i));
    for (std::size_t a = 0; a < chunks.size(); ++a)
      for (std::size_t b = 0; b < (dimensions() == 2 ? chunks.size() : 1) && found_.size() < 2; ++b)
        if (dimensions() == 1 || a != b) place(chunks, vectors, a, b);
    for (const auto& vector : vectors) first_[key(vector)] = none;
  }

  /// The shards k and k + 1 are the chunks at a and b.
  void place(const std::vector<unsigned>& chunks, const std::vector<std::array<std::uint8_t, 2>>& vectors,
             std::size_t a, std::size_t b) {
    std::bitset<max_chunks> taken;
    taken[a] = true;
    if (dimensions() == 2) taken[b] = true;
    Order& order = tried_;
    order.resize(k_);
    bool has_twins = false;
    for (unsigned shard = 0; shard < k_; ++shard) {
      std::array<std::uint8_t, 2> vector{};
      for (std::size_t d = 0; d < dimensions(); ++d) {
        vector[d] = mul(coding_(0, shard), vectors[a][d]);
        if (dimensions() == 2) vector[d] ^= mul(coding_(1, shard), vectors[b][d]);
      }
      std::uint8_t at = first_[key(vector)];
      has_twins |= at != none && next_[at] != none;
      while (at != none && taken[at]) at = next_[at];
      if (at == none) return;
      taken[at] = true;
      order[shard] = chunks[at];
    }
    if (!complete(&order)) return;
    found_.push_back(order);
    if (has_twins) found_.push_back(order);
  }

  /// Adds the chunks of the other shards; false where a shard is no chunk, or a chunk that is there already.
  bool complete(Order* order) const {
    for (unsigned r = 0; r < coding_.rows(); ++r) {
      Row row(k_);
      for (unsigned c = 0; c < k_; ++c) {
        const unsigned chunk = (*order)[c];
        if (chunk < k_)
          row[chunk] ^= coding_(r, c);
        else
          add_scaled(row, dialect_.row(chunk - k_), coding_(r, c));
      }
      unsigned chunk = 0;
      while (chunk < all_ &&
             !(chunk < k_ ? is_unit(row, chunk) : std::ranges::equal(row, dialect_.row(chunk - k_))))
        ++chunk;
      if (chunk == all_ || std::ranges::find(*order, chunk) != order->end()) return false;
      order->push_back(chunk);
    }
    return true;
  }

  static bool is_unit(const Row& row, unsigned at) {
    return row[at] == 1 && std::ranges::count(row, 0) == static_cast<std::ptrdiff_t>(row.size()) - 1;
  }
  static std::size_t key(const std::array<std::uint8_t, 2>& vector) { return vector[0] * 256u + vector[1]; }

  const Matrix& coding_;
  const Matrix& dialect_;
  const unsigned k_, all_;
  std::vector<std::uint8_t> first_, next_;  // of the chunks with a vector
  std::vector<Order> found_;
  Order tried_;
};

/// The fit of the dialect with the fewest missing chunks; m = 0 if the dialect does not fit.
Fit fit(std::string_view dialect, const Matrix& coding, bool* is_searched) {
  for (unsigned m = coding.rows(); m <= coding.rows() + most_missing && coding.cols() + m <= max_chunks;
       ++m) {
    const auto matrix = dialect_matrix(dialect, coding.cols(), m);
    if (!matrix) continue;
    Matcher matcher(coding, *matrix);
    const auto given = matcher.as_given();
    const bool can_search = matcher.can_search();
    *is_searched &= can_search || given;
    const auto found = can_search ? matcher.search() : std::vector<Order>();
    if (!given && found.empty()) continue;
    const Order& order = given ? *given : found.front();
    return {dialect, m, {order.begin(), order.end()}, found.size() == 1};
  }
  return {dialect, 0, {}, false};
}

/// The columns with information, as rows, and their places.
Matrix columns_of(std::span<const std::uint8_t* const> shards, std::size_t bytes,
                  std::vector<std::size_t>* places) {
  const auto n = static_cast<unsigned>(shards.size());
  const std::size_t most = n > 64 ? identify_columns / 8 : identify_columns, runs = most / identify_run;
  std::size_t next = 0;
  for (std::size_t i = 0; i < std::min(bytes, most); ++i) {
    if (bytes > most && i % identify_run == 0)
      next = (bytes - identify_run) / (runs - 1) * (i / identify_run);
    if (std::ranges::any_of(shards, [next](const std::uint8_t* shard) { return shard[next] != 0; }))
      places->push_back(next);
    ++next;
  }
  Matrix columns(static_cast<unsigned>(places->size()), n);
  for (unsigned i = 0; i < columns.rows(); ++i)
    for (unsigned shard = 0; shard < n; ++shard) columns(i, shard) = shards[shard][(*places)[i]];
  return columns;
}

Checks checks_of(const Matrix& columns, unsigned first, unsigned count) {
  Checks checks = all_checks(columns.cols());
  for (unsigned i = first; i < first + count && !checks.empty(); ++i) narrow(&checks, columns.row(i));
  return checks;
}

/// Columns, of each `step` one, that obey.
unsigned obeying(const Checks& checks, const Matrix& columns, unsigned step = 1) {
  unsigned count = 0;
  for (unsigned i = 0; i < columns.rows(); i += step) count += obeys(checks, columns.row(i));
  return count;
}

/// The checks that all columns obey; where most columns obey more checks, these. columns: n + 2 at least.
Checks find_checks(const Matrix& columns) {
  const unsigned n = columns.cols();
  Checks best = checks_of(columns, 0, columns.rows());
  // Two columns more than the damaged place needs: a window with damage seldom looks clean.
  const unsigned window = n - static_cast<unsigned>(best.size()) + 2;
  const unsigned starts = columns.rows() - window + 1, windows = std::min(starts, n > 64 ? 24u : 1000u);
  // Nearly all of the time goes to counting the columns that obey. A sample leaves out windows that far fewer
  // than half of them obey; where columns are of two kinds, about half of each, the counting ends.
  const unsigned step = columns.rows() / sampled_columns + 1;
  unsigned counts = most_counts;
  for (unsigned i = 0; i < windows; ++i) {
    Checks checks = checks_of(columns, static_cast<unsigned>(std::uint64_t{starts} * i / windows), window);
    if (counts == 0 || checks.size() <= best.size() ||
        obeying(checks, columns, step) * step < columns.rows() / 8 * 3)
      continue;
    --counts;
    if (obeying(checks, columns) * 2 >= columns.rows()) best = std::move(checks);
  }
  return best;
}

}  // namespace

Identity identify(std::span<const std::uint8_t* const> shards, std::size_t bytes) {
  Identity found;
  const auto n = static_cast<unsigned>(shards.size());
  std::vector<std::size_t> places;
  const Matrix columns = columns_of(shards, bytes, &places);
  found.columns = found.obeying = columns.rows();
  std::set<Row> distinct;
  for (unsigned i = 0; i < columns.rows() && distinct.size() < n + spare_columns; ++i)
    distinct.emplace(columns.row(i).begin(), columns.row(i).end());
  const auto cannot_tell = [&found](std::string why) {
    found.untold.push_back(std::move(why));
    return found;
  };
  if (distinct.size() < n + spare_columns)
    return cannot_tell("k: of the bytes looked at, " + std::to_string(distinct.size()) +
                       " columns are not zero and differ; " + std::to_string(n + spare_columns) +
                       " are needed");
  Checks checks = find_checks(columns);
  if (checks.empty())
    return cannot_tell(
        "k: the shards are independent: no linear byte-wise code over this field, or no more than k shards "
        "of one");
  found.obeying = obeying(checks, columns);
  const auto in_checks = covered(checks, n);
  const auto k = static_cast<unsigned>(in_checks.size() - checks.size());
  for (unsigned shard = 0; shard < n; ++shard)
    if (!std::ranges::binary_search(in_checks, shard)) found.outside.push_back(shard);
  const auto solved = solve(&checks);
  found.checks = Matrix(static_cast<unsigned>(checks.size()), n);
  for (unsigned r = 0; r < checks.size(); ++r) std::ranges::copy(checks[r], found.checks.row(r).begin());
  std::optional<ChunkSet> suspected;
  for (unsigned i = 0; i < columns.rows() && found.obeying < found.columns; ++i) {
    if (obeys(checks, columns.row(i))) continue;
    Row sums;
    for (const Row& check : checks) sums.push_back(dot(check, columns.row(i)));
    const auto now = single_errors(sums, n, [&](unsigned r, unsigned shard) { return checks[r][shard]; });
    if (!suspected) found.first_bad = places[i];
    suspected = suspected ? *suspected & now : now;
  }
  if (!found.outside.empty())
    found.untold.emplace_back(
        "whether the shards outside are of this stripe: nothing connects them with the others; damaged "
        "everywhere, foreign, or in no coding chunk given");
  const auto coding = k < 2 || solved.front() != in_checks[k]
                          ? std::nullopt
                          : coding_of(checks, std::span(in_checks).first(k));
  if (!coding)
    return cannot_tell(
        k < 2 ? "k: each shard is a multiple of one other: copies, or data that are zero elsewhere"
              : "k: some checks hold fewer than k + 1 shards: a locally repairable code, or data that are "
                "zero or repeat from shard to shard");
  if (suspected && suspected->count() == 1) found.damaged.assign(1, *suspected->begin());
  if (suspected && found.damaged.empty())
    found.untold.emplace_back(
        checks.size() == 1
            ? "which shard is damaged: one check holds them together, and two are needed"
            : "which shards are damaged: no single one explains the columns that break the checks");
  // Where all shards are in checks that all columns obey, there may be no other checks.
  if (found.obeying < found.columns / 64 * 63 &&
      covered(checks_of(columns, 0, columns.rows()), n).size() == n)
    return cannot_tell("k: the columns are of two kinds, and too many are of each");
  found.k = k;
  bool is_searched = true;
  for (const auto dialect : std::span(dialect_names).first<dialect_names.size() - 1>()) {
    Fit one = fit(dialect, *coding, &is_searched);
    if (one.m == 0) continue;
    for (const unsigned shard : found.outside) one.order.insert(one.order.begin() + shard, -1);
    found.fits.push_back(std::move(one));
  }
  if (found.fits.empty())
    found.untold.emplace_back(
        is_searched
            ? "the dialect: none known here fits, if no more than 4 chunks are missing; k is greater where a "
              "data chunk that is not given is zero or follows from others, as one that is equal does"
            : "the dialect: no order that was tried fits, and there are too many to try all");
  else if (found.fits.size() > 1)
    found.untold.emplace_back("the dialect: the shards given are the same by each that is named");
  if (std::ranges::any_of(found.fits, [](const Fit& one) { return !one.is_sole; }))
    found.untold.emplace_back("the order: others than the one named fit too, or were too many to try");
  return found;
}

}  // namespace ec::gf
