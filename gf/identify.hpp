// The code to which shards belong, found from their bytes alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gf/matrix.hpp"

namespace ec::gf {

/// A dialect by which the bytes may be made.
struct Fit {
  std::string_view dialect;
  unsigned m = 0;  ///< the fewest coding chunks with which an order that was tried fits
  /// The chunk number of each shard in an order that fits, if possible in the given order; -1: outside.
  std::vector<int> order;
  bool is_sole = false;  ///< with k + m chunks no other order fits; false: one does, or was not tried
};

/// The facts in the columns. A column is the bytes of all shards at one place; all-zero columns are skipped.
struct Identity {
  unsigned k = 0;                   ///< 0: cannot tell
  std::size_t columns = 0;          ///< columns looked at
  std::size_t obeying = 0;          ///< columns that obey the checks
  std::size_t first_bad = 0;        ///< the byte of the first column that does not, if there is one
  Matrix checks;                    ///< r rows, a cell a shard; each row times a column is zero
  std::vector<unsigned> damaged;    ///< the one shard that explains all columns that break the checks, if any
  std::vector<unsigned> outside;    ///< shards in no check
  std::vector<Fit> fits;            ///< the smallest m of each dialect
  std::vector<std::string> untold;  ///< the questions without an answer, and why
};

inline constexpr std::size_t identify_run = 256;        ///< bytes that are looked at in one go
inline constexpr std::size_t identify_columns = 65536;  ///< the most, in runs spread evenly

/// Shards (2 to max_chunks) of that many bytes each, in any order, with one damaged or some missing. k is the
/// rank of the columns: data shards that are not given do not show if they are zero everywhere, or sums of
/// multiples of others as equal ones are. Takes up to some seconds. Of more than some 25 shards only the
/// order given is tried, of more than some 45 with up to 3 missing chunks (in place of 4), and of more than
/// 90 with up to 2.
Identity identify(std::span<const std::uint8_t* const> shards, std::size_t bytes);

}  // namespace ec::gf
