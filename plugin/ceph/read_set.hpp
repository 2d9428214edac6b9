// Which chunks to read for a wish: the sets behind minimum_to_decode.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "gf/chunk_set.hpp"

namespace ec::ceph {

/// The chunks to read out of `available` to have `wanted`: the wanted themselves if all are there, otherwise
/// any k (the code is MDS), those that are wanted first, then by index, data before coding. Nothing if fewer
/// than k are available.
std::optional<gf::ChunkSet> smallest_read(unsigned k, const gf::ChunkSet& wanted,
                                          const gf::ChunkSet& available);

/// As Ceph's own plugins choose: the wanted themselves if all are there, otherwise the first k, wanted or
/// not.
std::optional<gf::ChunkSet> lowest_read(unsigned k, const gf::ChunkSet& wanted,
                                        const gf::ChunkSet& available);

/// As smallest_read, with the least total cost (ties: the wanted themselves, then lower indices).
/// costs: the available chunks and what each costs to read.
std::optional<gf::ChunkSet> cheapest_read(unsigned k, const gf::ChunkSet& wanted,
                                          const std::map<unsigned, int>& costs);

}  // namespace ec::ceph
