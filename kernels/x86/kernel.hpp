// The interface between common code and the translation units built for one instruction set.
// Those units include nothing else of ours, and no standard header that defines inline functions: a function
// with vague linkage compiled there could replace the baseline's at link time and run where it must not.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ec::kernels::x86 {

/// Best first. gfni256 and avx2 need no more than 256-bit registers.
enum class Isa : unsigned char { gfni512, gfni256, avx512, avx2 };

/// Targets are coded in groups of rows whose accumulators stay in registers, as equal as can be:
/// group g holds rows group_begin(rows, g) up to group_begin(rows, g + 1).
static constexpr unsigned max_group_rows = 6;
static constexpr unsigned group_count(unsigned rows) { return (rows + max_group_rows - 1) / max_group_rows; }
/// `index` of `parts` equal parts of `rows`. Most codes have one part, and a small call notices a division.
static constexpr unsigned part_begin(unsigned rows, unsigned parts, unsigned index) {
  return parts == 1 ? rows * index : rows * index / parts;
}
static constexpr unsigned group_begin(unsigned rows, unsigned g) {
  return part_begin(rows, group_count(rows), g);
}

/// Rows coded in one pass over the sources; more rows are coded in several passes.
static constexpr unsigned max_pass_rows = 32;
/// Sums of a tile are kept on the stack, which may be a fiber's: so many bytes for all rows together.
static constexpr size_t tile_sums_bytes = 16384;
/// Longest tile for so many rows: a multiple of 256.
static constexpr size_t max_tile_bytes(unsigned rows) {
  return rows <= 16 ? 1024 : tile_sums_bytes / rows / 256 * 256;
}

/// Where targets are streamed or sources fetched ahead without tiles, so many bytes of all sources are coded
/// for a group of rows, then for the next group.
static constexpr size_t strip_bytes = 4096;

/// Bytes of one expanded coefficient: an 8 x 8 bit matrix, or the products of both nibbles.
static constexpr size_t affine_bytes = 8;
static constexpr size_t shuffle_bytes = 32;

/// So many sources and targets of a call have a loop for their numbers.
static constexpr unsigned max_few_sources = 12, max_few_targets = 4;

/// How the data is walked. Tiles of tile_bytes of every source; in a tile, group_sources sources at a time,
/// while the tile of the source group_sources places later, in the order of use, is fetched.
struct Walk {
  size_t tile_bytes = 0;  ///< a multiple of 256 up to max_tile_bytes(rows); 0: no tiles, all sources at once
  unsigned group_sources = 0;  ///< at least 1 where there are tiles
  unsigned ahead_bytes = 0;  ///< where there are no tiles: fetch so far ahead in every source; 0: no fetching
  bool stream = false;       ///< write targets past the cache
  bool short_blocks = false;  ///< without tiles and fetching: take less of each source at a time
  bool written_out = false;   ///< likewise: by a loop for these numbers, where they are few
};

/// targets ^= or = coefficients . sources. 1 <= target_count <= max_pass_rows, 1 <= source_count <= 255,
/// bytes >= 1.
struct ProductCall {
  const uint8_t* const* sources;
  uint8_t* const* targets;
  unsigned source_count;
  unsigned target_count;
  size_t bytes;
  const uint8_t* coefficients;  ///< group of rows by group; in a group source by source, then row by row
  bool first_is_xor;            ///< every coefficient of row 0 is one
  unsigned folded;  ///< row 0 is the sum of all other rows and of so many first sources; 0: not so
  bool accumulate;
  Walk walk;
};

/// A solution of gf/cauchy_stages.hpp, which explains its words, with expanded coefficients of affine_bytes
/// each.
struct Solution {
  unsigned blocks;  ///< blocks of targets; 0: none, `then` is a matrix
  const uint8_t* row_factors;
  const uint8_t* inverse;
  const uint8_t* scales;
  const uint8_t* forward;
  const uint8_t* target_factors;
  const uint8_t* places;
};

/// The stages of gf/cauchy_stages.hpp, likewise.
struct Transform {
  unsigned log_points;  ///< 2 to 4
  unsigned blocks, row_blocks;
  unsigned rows;   ///< at most max_pass_rows
  unsigned lines;  ///< kept of a tile: sums, and rows if there are steps before or after them
  const uint8_t* lanes;
  const uint8_t* inverse;
  const uint8_t* scales;
  const uint8_t* forward;
  const uint8_t* places;
  const uint8_t* added;
  const uint8_t* rest;
  unsigned rest_count;
  const uint8_t* before;  ///< laid out as ProductCall::coefficients
  const uint8_t* then;    ///< the same; null: the rows are the targets, or are solved by `solution`
  Solution solution;
};
/// Registers can hold the sums of one block of rows of so many points.
static constexpr unsigned transform_register_log_points = 3;
static constexpr unsigned transform_none = 255;
/// Most values that are added up: points times blocks of rows.
static constexpr unsigned max_transform_sums = 64;
/// Bytes of a tile, in which the sums of all rows stay near: the first where targets stay in the caches, the
/// other where they are written past them. Cold, 1024 bytes have fewer streams begin anew: 64+16 and 128+32
/// at 1 MiB took 0.7 to 1.0 of the time, 32+8 the same; hot, 512 bytes are up to a tenth faster.
static constexpr size_t near_transform_tile_bytes = 512, far_transform_tile_bytes = 1024;

/// targets = transform of the sources. 1 <= target_count <= max_pass_rows; bytes: whole vectors.
struct TransformCall {
  const uint8_t* const* sources;
  uint8_t* const* targets;
  unsigned target_count;
  size_t bytes;
  const Transform* transform;
  bool stream;  ///< write targets past the cache; they are aligned to 64 bytes
  /// Sums stay in registers if they fit: one vector of all sources after the other. Otherwise the sums are in
  /// memory, and one block of sources after the other goes by in each tile.
  bool in_registers;
  size_t tile_bytes = 0;    ///< whole vectors, at most far_transform_tile_bytes; by call_transform
  uint8_t* room = nullptr;  ///< for Transform::lines of a tile, aligned to 64 bytes; by call_transform
};
/// For 512-bit registers alone: sixteen of 256 bits do not hold a block, and cold 64+16 took 1.7 times as
/// long with them. Returns the instruction set its translation unit was built for.
Isa transform_gfni512(const TransformCall& call) noexcept;

/// Each returns the instruction set its own translation unit was built for, and this unit alone defines it.
template <Isa isa>
Isa run(const ProductCall& call) noexcept;

}  // namespace ec::kernels::x86
