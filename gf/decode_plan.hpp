// From an erasure signature to the one matrix that makes everything wanted out of k survivors.
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
/// the surviving data enters through the coding rows used. Lost coding chunks come out of the same matrix.
/// Nothing if fewer than k chunks are available, or (for a matrix that is not MDS) the system is singular.
/// If every wanted chunk is available the plan has no targets and no sources.
std::optional<DecodePlan> make_decode_plan(const Matrix& coding, const ErasureSignature& signature);

/// A plan for a code that is not MDS, where all available chunks are looked at: it reads the lowest ones that
/// do, which may be fewer than k. Nothing if a wanted chunk is no sum of those that are available.
std::optional<DecodePlan> plan_by_any(const Matrix& coding, const ErasureSignature& signature);
/// Of the chunks in `from` those that are no sum of lower-numbered ones of them: no more than k.
ChunkSet independent_chunks(const Matrix& coding, const ChunkSet& from);
/// Of the chunks in `wanted` those that are a sum of the chunks in `available`.
ChunkSet solvable_chunks(const Matrix& coding, const ErasureSignature& signature);

}  // namespace ec::gf
