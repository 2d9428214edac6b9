// Geometry of the rungs whose tiles are fixed at compile time: shared by the kernels and by the functions
// that choose their launches.
#pragma once

#include <cstddef>

namespace ec::bench::ladder {

/// naive: bytes of one target that a block computes.
inline constexpr unsigned naive_threads = 256;
/// square tile: rows, columns and depth.
inline constexpr unsigned square_side = 16;
/// rectangular tile: threads side by side, columns of each, rows, depth.
inline constexpr unsigned rectangle_threads = 64;
inline constexpr unsigned rectangle_columns_per_thread = 4;
inline constexpr unsigned rectangle_rows = 4;
inline constexpr unsigned rectangle_depth = 16;
/// register tile: threads of a block; sources whose tables are in shared memory at a time; bytes of the
/// tables of one coefficient.
inline constexpr unsigned register_threads = 256;
inline constexpr unsigned register_depth = 128;
inline constexpr std::size_t table_bytes = 20;

}  // namespace ec::bench::ladder
