// The chunks to read for a request: the sets behind minimum_to_decode.
#pragma once

#include <optional>
#include <span>

#include "gf/chunk_set.hpp"

namespace ec::ceph {

/// A chunk that can be read, and its cost.
struct Offer {
  unsigned chunk;
  int cost;
};

/// The chunks to read to have `wanted`: the wanted chunks if all are there and no k chunks cost less in all,
/// otherwise the k of least cost (the code is MDS); of equal ones the wanted chunks first, then by index,
/// data before coding. lowest: by index alone, as Ceph's own plugins choose. there: no chunk twice; becomes
/// sorted. Nothing if fewer than k are there.
std::optional<gf::ChunkSet> choose_read(unsigned k, const gf::ChunkSet& wanted, std::span<Offer> there,
                                        bool lowest);

}  // namespace ec::ceph
