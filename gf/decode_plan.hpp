// From an erasure signature to the one matrix that makes every wanted chunk out of k survivors.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gf/chunk_set.hpp"
#include "gf/matrix.hpp"

namespace ec::gf {

/// targets = matrix . sources. Chunk indices: 0..k-1 data, k..k+m-1 coding; both lists ascend.
struct DecodePlan {
  Matrix matrix;                      ///< targets.size() x sources.size()
  std::vector<std::uint8_t> sources;  ///< the k chunks to read, all available
  std::vector<std::uint8_t> targets;  ///< wanted and not available, coding chunks included
};

/// Solves `signature` for the code whose coding matrix (m x k) is `coding`.
/// Only the lost data rows are solved (e x e for e <= m lost data chunks), never k x k:
/// the surviving data enters through the coding rows used. The same matrix makes the lost coding chunks.
/// Nothing if fewer than k chunks are available, or (for a matrix that is not MDS) the system is singular.
/// If every wanted chunk is available the plan has no targets and no sources.
std::optional<DecodePlan> make_decode_plan(const Matrix& coding, const ErasureSignature& signature);

/// A plan for a code that is not MDS. It looks at all available chunks and reads the lowest that suffice,
/// maybe fewer than k. Nothing if a wanted chunk is no sum of the available chunks.
std::optional<DecodePlan> plan_by_any(const Matrix& coding, const ErasureSignature& signature);
/// The chunks in `from` that are no sum of lower-numbered chunks in `from`: no more than k.
ChunkSet independent_chunks(const Matrix& coding, const ChunkSet& from);
/// The chunks in `wanted` that are a sum of the chunks in `available`.
ChunkSet solvable_chunks(const Matrix& coding, const ErasureSignature& signature);

}  // namespace ec::gf
