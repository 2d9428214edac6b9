// A Cauchy matrix by its stages (gf/cauchy_stages.hpp), a template over the vectors of an instruction set.
// Included after coder.inl inside the same unnamed namespace.
//
// Tile by tile, so that the sums of all rows stay in the first caches. In a tile a block of sources goes by
// column by column: its values are in registers while they are interpolated and added to each block of rows'
// sums. Each step of a tile is a function of its own: in one function, 24+8 hot took 1.1 times as long.

template <class T, unsigned log>
using Values = typename T::Vector[1u << log];

template <class T, unsigned log, unsigned level, bool inverse>
[[gnu::always_inline]] inline void butterflies(Values<T, log>& v, const uint8_t*& factors) {
  constexpr unsigned half = 1u << level;
#pragma GCC unroll 8
  for (unsigned block = 0; block < 1u << log; block += 2 * half) {
    const auto factor = T::factor(factors);
    factors += affine_bytes;
#pragma GCC unroll 8
    for (unsigned j = block; j < block + half; ++j) {
      if constexpr (inverse) v[j + half] = T::add(v[j + half], v[j]);
      v[j] = T::multiply_add(v[j], factor, T::prepare(v[j + half]));
      if constexpr (!inverse) v[j + half] = T::add(v[j + half], v[j]);
    }
  }
}

template <class T, unsigned log>
[[gnu::always_inline]] inline void interpolate(Values<T, log>& v, const uint8_t* factors) {
  butterflies<T, log, 0, true>(v, factors);
  butterflies<T, log, 1, true>(v, factors);
  if constexpr (log > 2) butterflies<T, log, 2, true>(v, factors);
  if constexpr (log > 3) butterflies<T, log, 3, true>(v, factors);
}

template <class T, unsigned log>
[[gnu::always_inline]] inline void evaluate(Values<T, log>& v, const uint8_t* factors) {
  if constexpr (log > 3) butterflies<T, log, 3, false>(v, factors);
  if constexpr (log > 2) butterflies<T, log, 2, false>(v, factors);
  butterflies<T, log, 1, false>(v, factors);
  butterflies<T, log, 0, false>(v, factors);
}

/// stream: targets are written past the caches, and sources fetched ahead, which no near cache holds.
template <class T, unsigned log, bool stream>
class Transformer {
 public:
  explicit Transformer(const TransformCall& call) : call_(call), t_(*call.transform) {
    for (unsigned r = 0; r < t_.rows; ++r) row_[r] = call.room + (t_.row_blocks * points + r) * tile_bytes_;
    for (unsigned i = 0; i < t_.blocks * points; ++i) {
      if (t_.lanes[i] == transform_none)
        some_are_zeros_ = true;
      else
        lane_[i] = call.sources[t_.lanes[i]];
    }
  }

  void run() {
    for (size_t at = 0; at < call_.bytes; at += tile_bytes_) {
      const size_t bytes = call_.bytes - at < tile_bytes_ ? call_.bytes - at : tile_bytes_;
      if (some_are_zeros_) place_zeros(at);
      if (t_.rest_count != 0) code_rest_of(at, bytes);
      code_tile(at, bytes);
      if (t_.then != nullptr) code_then(at, bytes);
    }
    if (stream) _mm_sfence();
  }

 private:
  static constexpr unsigned points = 1u << log;
  /// How far ahead of its use a source is fetched: in tiles in the order of use, into the second level, since
  /// chunks a power of two apart share sets of the first (64+16 and 128+32 1.05 to 1.17); else in the source.
  static constexpr size_t ahead_bytes = 512;
  /// Where sums are in registers, so many blocks have load instructions of their own, for prefetchers (see
  /// coder.inl): on a Zen 5, 32+8 in 4 KiB chunks side by side 45 to 50 GB/s, 30 by one, less by eight.
  static constexpr unsigned blocks_written_out = 4;

  void code_tile(size_t at, size_t bytes) {
    if (log == transform_register_log_points && t_.row_blocks == 1 && call_.in_registers) {
      if constexpr (log == transform_register_log_points) code_columns(at, bytes);
      if (sums_are_targets_) return;
    } else {
      add_block<true>(0, at, bytes);
      for (unsigned block = 1; block < t_.blocks; ++block) add_block<false>(block, at, bytes);
    }
    for (unsigned p = 0; p < t_.row_blocks; ++p)
      sums_are_targets_ ? write_block(p, at, bytes) : finish_block(p, at, bytes);
    if (t_.solution.blocks != 0) solve(at, bytes);
  }

  /// Lanes without a source are zeros in the tile.
  void place_zeros(size_t at) {
    for (unsigned i = 0; i < t_.blocks * points; ++i)
      if (t_.lanes[i] == transform_none)
        lane_[i] = reinterpret_cast<const uint8_t*>(reinterpret_cast<uintptr_t>(zeros) - at);
  }

  [[gnu::noinline]] void code_columns(size_t at, size_t bytes) {
    for (size_t column = 0; column < bytes; column += T::width) code_column(at, column);
  }

  /// A vector of each row, from all blocks of sources, with sums in registers.
  [[gnu::always_inline]] void code_column(size_t at, size_t column) {
    typename T::Vector sums[points];
#pragma GCC unroll 8
    for (unsigned lane = 0; lane < points; ++lane) sums[lane] = T::zero();
    const uint8_t* const* lanes = lane_;
    const uint8_t* inverse = t_.inverse;
    const uint8_t* scales = t_.scales;
    for (unsigned block = 0; block < t_.blocks;) {
#pragma GCC unroll 8
      for (unsigned turn = 0; turn < blocks_written_out; ++turn) {
        if (block == t_.blocks) break;
        typename T::Vector v[points];
#pragma GCC unroll 8
        for (unsigned lane = 0; lane < points; ++lane) {
          const uint8_t* source = lanes[lane] + at + column;
          v[lane] = T::load(source);
          if constexpr (stream) _mm_prefetch(source + ahead_bytes, _MM_HINT_T0);
        }
        interpolate<T, log>(v, inverse);
        const auto scale = T::factor(scales);
#pragma GCC unroll 8
        for (unsigned lane = 0; lane < points; ++lane)
          sums[lane] = T::multiply_add(sums[lane], scale, T::prepare(v[lane]));
        lanes += points;
        inverse += (points - 1) * affine_bytes;
        scales += affine_bytes;
        ++block;
      }
    }
    sums_are_targets_ ? put_targets(0, sums, at, column) : store_all(sums_of(0, column), sums);
  }

  /// Adds a block of sources to the sums in memory; the first block makes the sums.
  template <bool first>
  [[gnu::noinline]] void add_block(unsigned block, size_t at, size_t bytes) {
    const uint8_t* const* lanes = lane_ + block * points;
    const bool is_last = block + 1 == t_.blocks;
    const uint8_t* const* next = is_last ? lane_ : lanes + points;
    const size_t next_at = is_last && at + tile_bytes_ < call_.bytes ? at + tile_bytes_ : at;
    const uint8_t* inverse = t_.inverse + size_t{block} * (points - 1) * affine_bytes;
    const uint8_t* scales = t_.scales + size_t{block} * t_.row_blocks * affine_bytes;
    const unsigned row_blocks = t_.row_blocks;
    for (size_t column = 0; column < bytes; column += T::width) {
      typename T::Vector v[points];
      const bool stays = column + ahead_bytes < bytes;
      const uint8_t* const* from = stays ? lanes : next;
      const size_t ahead = column + ahead_bytes + (stays ? at : next_at - bytes);
#pragma GCC unroll 16
      for (unsigned lane = 0; lane < points; ++lane) {
        v[lane] = T::load(lanes[lane] + at + column);
        if constexpr (stream) _mm_prefetch(from[lane] + ahead, _MM_HINT_T1);
      }
      interpolate<T, log>(v, inverse);
      for (unsigned p = 0; p < row_blocks; ++p) {
        const auto scale = T::factor(scales + p * affine_bytes);
        uint8_t* sums = sums_of(p, column);
#pragma GCC unroll 16
        for (unsigned lane = 0; lane < points; ++lane) {
          const auto before = first ? T::zero() : T::load(sums + lane * T::width);
          T::store(sums + lane * T::width, T::multiply_add(before, scale, T::prepare(v[lane])));
        }
      }
    }
  }

  /// The targets of a block of points, from their sums in memory.
  [[gnu::noinline]] void write_block(unsigned p, size_t at, size_t bytes) {
    for (size_t column = 0; column < bytes; column += T::width) {
      typename T::Vector v[points];
      load_all(v, sums_of(p, column));
      put_targets(p, v, at, column);
    }
  }

  /// A column's sums lie side by side: in separate rows, at addresses equal modulo 4 KiB, loads would wait
  /// for stores of other rows (64+16 and 128+32 hot took 1.06 to 1.18 times as long on a Zen 5).
  uint8_t* sums_of(unsigned p, size_t column) { return call_.room + points * (p * tile_bytes_ + column); }

  [[gnu::always_inline]] void put_targets(unsigned p, Values<T, log>& v, size_t at, size_t column) {
    evaluate<T, log>(v, t_.forward + size_t{p} * (points - 1) * affine_bytes);
    const uint8_t* places = t_.places + p * points;
    uint8_t* const* targets = call_.targets;
#pragma GCC unroll 16
    for (unsigned lane = 0; lane < points; ++lane)
      if (const unsigned row = places[lane]; row != transform_none) put(targets[row] + at + column, v[lane]);
  }

  /// The rows of a block of points, from their sums in memory; where a solution follows, the coefficients of
  /// its transform of the rows in place of the sums.
  [[gnu::noinline]] void finish_block(unsigned p, size_t at, size_t bytes) {
    for (size_t column = 0; column < bytes; column += T::width) finish_column(p, at, column);
  }
  [[gnu::always_inline]] void finish_column(unsigned p, size_t at, size_t column) {
    typename T::Vector v[points];
    load_all(v, sums_of(p, column));
    evaluate<T, log>(v, t_.forward + size_t{p} * (points - 1) * affine_bytes);
    const Solution& solution = t_.solution;
    const uint8_t* places = t_.places + p * points;
#pragma GCC unroll 16
    for (unsigned lane = 0; lane < points; ++lane) {
      const unsigned row = places[lane];
      if (row == transform_none) {
        v[lane] = T::zero();
        continue;
      }
      auto value = v[lane];
      if (t_.rest_count != 0) value = T::add(value, T::load(row_[row] + column));
      if (const unsigned source = t_.added[row]; source != transform_none) {
        const uint8_t* from = call_.sources[source] + at + column;
        if constexpr (stream) _mm_prefetch(from + ahead_bytes, _MM_HINT_T0);
        value = T::add(value, T::load(from));
      }
      // Where another step follows, that step writes the targets.
      if (solution.blocks != 0)
        v[lane] = times(value, solution.row_factors + (p * points + lane) * affine_bytes);
      else if (t_.then != nullptr)
        T::store(row_[row] + column, value);
      else
        put(call_.targets[row] + at + column, value);
    }
    if (solution.blocks == 0) return;
    interpolate<T, log>(v, solution.inverse + size_t{p} * (points - 1) * affine_bytes);
    store_all(sums_of(p, column), v);
  }

  /// The targets, from the coefficients of all blocks of rows.
  [[gnu::noinline]] void solve(size_t at, size_t bytes) {
    for (size_t column = 0; column < bytes; column += T::width) solve_column(at, column);
  }
  [[gnu::always_inline]] void solve_column(size_t at, size_t column) {
    const Solution& s = t_.solution;
    const uint8_t* scales = s.scales;
    for (unsigned block = 0; block < s.blocks; ++block) {
      typename T::Vector v[points];
      load_all(v, sums_of(0, column));
      for (unsigned p = 1; p < t_.row_blocks; ++p, scales += affine_bytes) {
        const auto scale = T::factor(scales);
        const uint8_t* sums = sums_of(p, column);
#pragma GCC unroll 16
        for (unsigned lane = 0; lane < points; ++lane)
          v[lane] = T::multiply_add(v[lane], scale, T::prepare(T::load(sums + lane * T::width)));
      }
      evaluate<T, log>(v, s.forward + size_t{block} * (points - 1) * affine_bytes);
      const uint8_t* places = s.places + block * points;
      const uint8_t* factors = s.target_factors + block * points * affine_bytes;
#pragma GCC unroll 16
      for (unsigned lane = 0; lane < points; ++lane)
        if (const unsigned target = places[lane]; target != transform_none)
          put(call_.targets[target] + at + column, times(v[lane], factors + lane * affine_bytes));
    }
  }

  [[gnu::always_inline]] static void load_all(Values<T, log>& v, const uint8_t* from) {
#pragma GCC unroll 16
    for (unsigned lane = 0; lane < points; ++lane) v[lane] = T::load(from + lane * T::width);
  }
  [[gnu::always_inline]] static void store_all(uint8_t* to, const Values<T, log>& v) {
#pragma GCC unroll 16
    for (unsigned lane = 0; lane < points; ++lane) T::store(to + lane * T::width, v[lane]);
  }
  [[gnu::always_inline]] static typename T::Vector times(typename T::Vector v, const uint8_t* factor) {
    return T::product(T::factor(factor), T::prepare(v));
  }

  [[gnu::always_inline]] static void put(uint8_t* target, typename T::Vector value) {
    if constexpr (stream)
      T::stream(target, value);
    else
      T::store(target, value);
  }

  /// rows = before . the sources in no block, in this tile.
  [[gnu::noinline]] void code_rest_of(size_t at, size_t bytes) {
    const uint8_t* sources[max_sources];
    for (unsigned s = 0; s < t_.rest_count; ++s) sources[s] = call_.sources[t_.rest[s]] + at;
    const ProductCall dense{sources, row_, t_.rest_count, t_.rows, bytes, t_.before, false, 0, false, {}};
    run_call<T>(dense);
  }

  /// targets = then . rows, in this tile.
  void code_then(size_t at, size_t bytes) {
    uint8_t* targets[max_pass_rows];
    for (unsigned t = 0; t < call_.target_count; ++t) targets[t] = call_.targets[t] + at;
    const ProductCall dense{row_,  targets, t_.rows, call_.target_count, bytes, t_.then,
                            false, 0,       false,   {.stream = stream}};
    run_call<T>(dense);
  }

  alignas(64) static constexpr uint8_t zeros[far_transform_tile_bytes] = {};

  const TransformCall& call_;
  const Transform& t_;
  const size_t tile_bytes_ = call_.tile_bytes;
  /// Whether the sums, evaluated, are all of the targets: an encode of whole blocks.
  const bool sums_are_targets_ = t_.rest_count == 0 && t_.then == nullptr && t_.solution.blocks == 0;
  const uint8_t* lane_[max_sources + 1];  ///< by block of sources: the source of each lane
  bool some_are_zeros_ = false;
  uint8_t* row_[max_pass_rows];
};

template <class T, unsigned log>
void run_points(const TransformCall& call) {
  call.stream ? Transformer<T, log, true>(call).run() : Transformer<T, log, false>(call).run();
}

template <class T>
void run_transform(const TransformCall& call) {
  const unsigned log = call.transform->log_points;
  log == 2 ? run_points<T, 2>(call) : log == 3 ? run_points<T, 3>(call) : run_points<T, 4>(call);
}
