// From an erasure signature to the one matrix that makes every wanted chunk out of available chunks.
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
  std::vector<std::uint8_t> sources;  ///< the chunks to read, all available
  std::vector<std::uint8_t> targets;  ///< wanted and not available, coding chunks included
};

/// Solves `signature` for the code whose coding matrix (m x k) is `coding`, MDS or not. Reads the available
/// data chunks and the lowest coding chunks that are needed with them: k chunks in all of an MDS code, maybe
/// fewer of another. Nothing if a wanted chunk is no sum of the available chunks. If every wanted chunk is
/// available the plan has no targets and no sources. Wanted chunks from k + m on are left out.
std::optional<DecodePlan> make_decode_plan(const Matrix& coding, const ErasureSignature& signature);

/// The chunks in `from` that are no sum of lower-numbered chunks in `from`: no more than k.
ChunkSet independent_chunks(const Matrix& coding, const ChunkSet& from);
/// The chunks in `wanted` that are a sum of the chunks in `available`. All are below k + m.
ChunkSet solvable_chunks(const Matrix& coding, const ErasureSignature& signature);

}  // namespace ec::gf
