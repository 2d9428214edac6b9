// The one loop nest of all instruction sets, a template over their vectors. Included by their translation
// units inside an unnamed namespace, so that no part of it is shared with other units.
//
// A block is `vectors` vectors of every row of a group: its accumulators stay in registers while all sources
// of the pass go by. Sources may be taken in tiles because chunks that lie a power of two apart share the
// sets of the first-level cache: a few sources at a time fit, all at once do not. Partial sums wait in
// `sums`.
//
// Each of up to 16 sources has load instructions of its own: the first-level prefetchers of AMD and Intel
// know a stream by the address of the instruction that reads it, and a loop over the sources looks to them
// like one that jumps about. On a Zen 5, 6+3 from the second-level cache: 150 GB/s, 80 by a loop.

constexpr unsigned max_sources = 255;

/// The kind of a group's first row.
enum class FirstRow {
  general,
  ones,   ///< the sum of the sources
  folded  ///< the sum of `summed` sources and of all other rows
};

/// The product of a group of rows and a group of sources.
struct GroupPass {
  const uint8_t* const* sources;
  const uint8_t* const* ahead = nullptr;  ///< the address to fetch while source s is used; null: no fetching
  unsigned source_count;
  const uint8_t* coefficients;
  const uint8_t* const* in = nullptr;  ///< the rows' sums so far; null: they are zero
  uint8_t* const* out;
  size_t in_origin = 0;  ///< offset in the chunk of the sums in `in`
  size_t out_origin = 0;
  bool stream = false;
  unsigned summed = 0;  ///< FirstRow::folded: sources that enter the first row
  bool fold = true;     ///< FirstRow::folded: add the other rows to it, because no source comes after these
};

/// Whole vectors.
template <class T>
struct Whole {
  static constexpr bool may_stream = true;
  static typename T::Vector load(const uint8_t* at) { return T::load(at); }
  static typename T::Vector sum(const uint8_t* at) { return T::load(at); }
  static void store(uint8_t* at, typename T::Vector v) { T::store(at, v); }
};

/// Adds `count` sources of the pass, one or two, from s on to `sums`. apart: the first row has no
/// coefficients in use; summed: the first row gets these sources unscaled.
template <class T, unsigned count, unsigned rows, bool apart, bool summed, unsigned vectors, bool fetch,
          class Io>
[[gnu::always_inline]] inline void add_some(const GroupPass& pass, size_t at, const Io& io, unsigned s,
                                            const uint8_t*& coefficients,
                                            typename T::Vector (&sums)[rows][vectors]) {
  const uint8_t* first = pass.sources[s] + at;
  const uint8_t* second = count == 2 ? pass.sources[s + 1] + at : first;
  if constexpr (fetch) {
#pragma GCC unroll 8
    for (unsigned v = 0; v < vectors * T::width; v += 64) {
      _mm_prefetch(pass.ahead[s] + at + v, _MM_HINT_T0);
      if constexpr (count == 2) _mm_prefetch(pass.ahead[s + 1] + at + v, _MM_HINT_T0);
    }
  }
  typename T::Prepared a[vectors], b[vectors];
#pragma GCC unroll 8
  for (unsigned v = 0; v < vectors; ++v) {
    a[v] = T::prepare(io.load(first + v * T::width));
    if constexpr (count == 2) b[v] = T::prepare(io.load(second + v * T::width));
    if constexpr (summed && rows > 1) {
      T::keep(a[v].value);
      if constexpr (count == 2) T::keep(b[v].value);
    }
    if constexpr (summed)
      sums[0][v] = count == 2 ? T::add(sums[0][v], a[v].value, b[v].value) : T::add(sums[0][v], a[v].value);
  }
#pragma GCC unroll 8
  for (unsigned r = apart; r < rows; ++r) {
    const auto fa = T::factor(coefficients + r * T::coefficient_bytes);
    if constexpr (count == 2) {
      const auto fb = T::factor(coefficients + (rows + r) * T::coefficient_bytes);
#pragma GCC unroll 8
      for (unsigned v = 0; v < vectors; ++v)
        sums[r][v] = T::add(sums[r][v], T::product(fa, a[v]), T::product(fb, b[v]));
    } else {
#pragma GCC unroll 8
      for (unsigned v = 0; v < vectors; ++v) sums[r][v] = T::multiply_add(sums[r][v], fa, a[v]);
    }
  }
  coefficients += count * rows * T::coefficient_bytes;
}

/// Adds sources [s, end). loads: so many sources have load instructions of their own; 2 at least. known:
/// their number, where no branch is to depend on that; otherwise 0.
template <class T, unsigned rows, bool apart, bool summed, unsigned vectors, bool fetch, unsigned loads,
          unsigned known = 0, class Io>
[[gnu::always_inline]] inline void add_sources(const GroupPass& pass, size_t at, const Io& io, unsigned s,
                                               unsigned end, const uint8_t*& coefficients,
                                               typename T::Vector (&sums)[rows][vectors]) {
  constexpr unsigned step = T::pairs ? 2 : 1;
#pragma GCC unroll 16
  for (unsigned turn = 0; turn < known / step; ++turn, s += step)
    add_some<T, step, rows, apart, summed, vectors, fetch>(pass, at, io, s, coefficients, sums);
  while (known == 0 && s + step <= end) {
#pragma GCC unroll 16
    for (unsigned turn = 0; turn < loads / step; ++turn) {
      if (s + step > end) break;
      add_some<T, step, rows, apart, summed, vectors, fetch>(pass, at, io, s, coefficients, sums);
      s += step;
    }
  }
  if (T::pairs && s < end)
    add_some<T, 1, rows, apart, summed, vectors, fetch>(pass, at, io, s, coefficients, sums);
}

template <class T, unsigned rows, FirstRow first, unsigned vectors, bool fetch, unsigned loads,
          unsigned known = 0, class Io>
[[gnu::always_inline]] inline void code_block(const GroupPass& pass, size_t at, const Io& io) {
  using Vector = typename T::Vector;
  Vector sums[rows][vectors];
#pragma GCC unroll 8
  for (unsigned r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (unsigned v = 0; v < vectors; ++v)
      sums[r][v] = pass.in == nullptr ? T::zero() : io.sum(pass.in[r] + (at - pass.in_origin) + v * T::width);

  const uint8_t* coefficients = pass.coefficients;
  constexpr bool ones = first == FirstRow::ones;
  if constexpr (first == FirstRow::folded) {
    add_sources<T, rows, true, true, vectors, fetch, loads>(pass, at, io, 0, pass.summed, coefficients, sums);
    add_sources<T, rows, true, false, vectors, fetch, 2>(pass, at, io, pass.summed, pass.source_count,
                                                         coefficients, sums);
    if (pass.fold) {
#pragma GCC unroll 8
      for (unsigned r = 1; r < rows; ++r)
#pragma GCC unroll 8
        for (unsigned v = 0; v < vectors; ++v) sums[0][v] = T::add(sums[0][v], sums[r][v]);
    }
  } else {
    add_sources<T, rows, ones, ones, vectors, fetch, loads, known>(pass, at, io, 0, pass.source_count,
                                                                   coefficients, sums);
  }

#pragma GCC unroll 8
  for (unsigned r = 0; r < rows; ++r) {
    uint8_t* out = pass.out[r] + (at - pass.out_origin);
#pragma GCC unroll 8
    for (unsigned v = 0; v < vectors; ++v) {
      if (Io::may_stream && pass.stream)
        T::stream(out + v * T::width, sums[r][v]);
      else
        io.store(out + v * T::width, sums[r][v]);
    }
  }
}

/// Bytes [begin, end) of a pass. A rest of less than a vector must be the end of the chunks.
template <class T, unsigned rows, FirstRow first, bool short_blocks>
void code_range(const GroupPass& shared, size_t begin, size_t end) {
  const GroupPass pass = shared;  // a copy that no store to a target can change: its fields stay in registers
  constexpr unsigned vectors = short_blocks ? T::short_vectors : T::vectors(rows);
  constexpr size_t block = vectors * T::width;
  const Whole<T> io;
  size_t at = begin;
  if (!short_blocks && pass.ahead != nullptr) {
    for (; at + block <= end; at += block) code_block<T, rows, first, vectors, true, 16>(pass, at, io);
  } else {
    for (; at + block <= end; at += block) code_block<T, rows, first, vectors, false, 16>(pass, at, io);
  }
  for (; at + T::width <= end; at += T::width) code_block<T, rows, first, 1, false, 2>(pass, at, io);
  if (at != end)
    T::code_rest(at, end, pass.in != nullptr, [&](size_t from, const auto& rest) {
      code_block<T, rows, first, 1, false, 2>(pass, from, rest);
    });
}

template <class T>
using Factor = decltype(T::factor(nullptr));

/// The targets plus the products of one source, one target after the other.
template <class T, unsigned rows, bool ones, unsigned vectors, class Io>
[[gnu::always_inline]] inline void add_whole(const GroupPass& pass, const Factor<T> (&factors)[rows],
                                             size_t at, const Io& io) {
  typename T::Prepared values[vectors];
#pragma GCC unroll 8
  for (unsigned v = 0; v < vectors; ++v) values[v] = T::prepare(io.load(pass.sources[0] + at + v * T::width));
#pragma GCC unroll 8
  for (unsigned r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (unsigned v = 0; v < vectors; ++v) {
      uint8_t* const target = pass.out[r] + at + v * T::width;
      const auto sum = io.sum(target);
      io.store(target,
               ones && r == 0 ? T::add(sum, values[v].value) : T::multiply_add(sum, factors[r], values[v]));
    }
}

/// A block of whole_call.
template <class T, unsigned rows, bool ones, unsigned sources, bool add, unsigned vectors, class Io>
[[gnu::always_inline]] inline void whole_block(const GroupPass& pass, const Factor<T> (&factors)[rows],
                                               size_t at, const Io& io) {
  if constexpr (add)
    add_whole<T, rows, ones, vectors>(pass, factors, at, io);
  else
    code_block<T, rows, ones ? FirstRow::ones : FirstRow::general, vectors, false, 2, sources>(pass, at, io);
}

/// All of a call of few sources and targets, or of one source whose products are added. No branch depends on
/// their numbers, and addresses and factors are in registers, as far as those reach: no store to a target can
/// change these copies. Read anew for each block, they were 0.6 of the instructions (AVX2, one source added
/// to two targets).
template <class T, unsigned rows, bool ones, unsigned sources, bool add>
void whole_call(const uint8_t* const* given, uint8_t* const* targets, const uint8_t* coefficients,
                size_t end) {
  const uint8_t* from[sources];
  uint8_t* to[rows];
  Factor<T> factors[rows];
#pragma GCC unroll 16
  for (unsigned s = 0; s < sources; ++s) from[s] = given[s];
#pragma GCC unroll 8
  for (unsigned r = 0; r < rows; ++r) to[r] = targets[r];
#pragma GCC unroll 8
  for (unsigned r = 0; add && r < rows; ++r) factors[r] = T::factor(coefficients + r * T::coefficient_bytes);
  // More factors would be spilled, and are read from where they are.
  constexpr bool held = !add && (rows - ones) * sources <= 20;
  uint8_t copies[held ? rows * sources * T::coefficient_bytes : 1];
  if (held) __builtin_memcpy(copies, coefficients, sizeof copies);
  const GroupPass pass{
      .sources = from, .source_count = sources, .coefficients = held ? copies : coefficients, .out = to};
  // With four in place of two, encode of unaligned chunks of 64 KiB has 1.0 to 1.5 times the speed, and of
  // aligned chunks of 4 KiB from the third level 0.84 to 0.99.
  constexpr unsigned vectors = add ? T::vectors(rows) : T::short_vectors;
  const Whole<T> io;
  size_t at = 0;
  for (; at + vectors * T::width <= end; at += vectors * T::width)
    whole_block<T, rows, ones, sources, add, vectors>(pass, factors, at, io);
  for (; at + T::width <= end; at += T::width)
    whole_block<T, rows, ones, sources, add, 1>(pass, factors, at, io);
  if (at != end)
    T::code_rest(at, end, add, [&](size_t from_at, const auto& rest) {
      whole_block<T, rows, ones, sources, add, 1>(pass, factors, from_at, rest);
    });
}

/// code_range by the number of rows less one, and all of these functions by the kind of the first row.
using Range = void (*)(const GroupPass&, size_t, size_t);
template <class T, FirstRow first, bool short_blocks>
constexpr Range by_rows[max_group_rows] = {
    code_range<T, 1, first, short_blocks>, code_range<T, 2, first, short_blocks>,
    code_range<T, 3, first, short_blocks>, code_range<T, 4, first, short_blocks>,
    code_range<T, 5, first, short_blocks>, code_range<T, 6, first, short_blocks>};
template <class T, bool short_blocks>
constexpr const Range* by_first[] = {by_rows<T, FirstRow::general, short_blocks>,
                                     by_rows<T, FirstRow::ones, short_blocks>,
                                     by_rows<T, FirstRow::folded, short_blocks>};

/// whole_call by the number of sources less one, and these by the number of rows less one.
using WholeCall = void (*)(const uint8_t* const*, uint8_t* const*, const uint8_t*, size_t);
template <class T, bool ones, unsigned rows>
constexpr WholeCall by_sources[max_few_sources] = {
    whole_call<T, rows, ones, 1, false>,  whole_call<T, rows, ones, 2, false>,
    whole_call<T, rows, ones, 3, false>,  whole_call<T, rows, ones, 4, false>,
    whole_call<T, rows, ones, 5, false>,  whole_call<T, rows, ones, 6, false>,
    whole_call<T, rows, ones, 7, false>,  whole_call<T, rows, ones, 8, false>,
    whole_call<T, rows, ones, 9, false>,  whole_call<T, rows, ones, 10, false>,
    whole_call<T, rows, ones, 11, false>, whole_call<T, rows, ones, 12, false>};
template <class T, bool ones>
constexpr const WholeCall* few_by_rows[max_few_targets] = {by_sources<T, ones, 1>, by_sources<T, ones, 2>,
                                                           by_sources<T, ones, 3>, by_sources<T, ones, 4>};
template <class T, bool ones>
constexpr WholeCall added_by_rows[max_group_rows] = {
    whole_call<T, 1, ones, 1, true>, whole_call<T, 2, ones, 1, true>, whole_call<T, 3, ones, 1, true>,
    whole_call<T, 4, ones, 1, true>, whole_call<T, 5, ones, 1, true>, whole_call<T, 6, ones, 1, true>};

template <class T>
class Coder {
 public:
  explicit Coder(const ProductCall& call) : call_(call), groups_(group_count(call.target_count)) {}

  /// Most short calls, without a loop over groups. False, and nothing done: a call for run().
  [[gnu::always_inline]] bool run_short() const { return !is_large() && groups_ == 1 && run_whole(0); }
  /// A call that run_short() left.
  void run() const {
    if (is_large())
      run_large();
    else
      each_group([&](unsigned g) {
        if (groups_ == 1 || !run_whole(g)) all_sources(g, nullptr, 0, call_.bytes, false);
      });
  }

 private:
  bool is_large() const {
    return call_.walk.tile_bytes != 0 || call_.walk.ahead_bytes != 0 || call_.walk.stream;
  }

  /// A group by whole_call; false, and nothing done, if there is none for it.
  [[gnu::always_inline]] bool run_whole(unsigned g) const {
    const FirstRow first = first_row_is(g);
    const unsigned row = rows(g) - 1, source = call_.source_count - 1;
    WholeCall whole = nullptr;
    if (call_.accumulate) {
      if (source == 0)
        whole = (first == FirstRow::ones ? added_by_rows<T, true> : added_by_rows<T, false>)[row];
    } else if constexpr (T::short_vectors != 0) {
      if (call_.walk.written_out && first != FirstRow::folded && source < max_few_sources &&
          row < max_few_targets)
        whole = (first == FirstRow::ones ? few_by_rows<T, true> : few_by_rows<T, false>)[row][source];
    }
    if (whole == nullptr) return false;
    whole(call_.sources, call_.targets + first_row(g), coefficients(g, 0), call_.bytes);
    return true;
  }

  /// Streaming stores want aligned addresses: sets `head` to the bytes before the first aligned one, if all
  /// targets have the same. The 64 bytes there are coded twice, by ordinary stores first.
  bool can_stream(size_t& head) const {
    const size_t misfit = reinterpret_cast<uintptr_t>(call_.targets[0]) % 64;
    for (unsigned t = 1; t < call_.target_count; ++t)
      if (reinterpret_cast<uintptr_t>(call_.targets[t]) % 64 != misfit) return false;
    if (call_.bytes < 64) return false;
    head = misfit == 0 ? 0 : 64 - misfit;
    return true;
  }

  [[gnu::noinline]] void run_large() const {
    const uint8_t* ahead[max_sources];
    if (call_.walk.tile_bytes != 0 || call_.walk.ahead_bytes != 0) fill_ahead(ahead);
    size_t begin = 0;
    const bool stream = call_.walk.stream && !call_.accumulate && can_stream(begin);
    if (begin != 0) each_group([&](unsigned g) { all_sources(g, nullptr, 0, 64, false); });
    if (call_.walk.tile_bytes == 0) {
      const bool fetches = call_.walk.ahead_bytes != 0;
      const size_t strip = groups_ == 1 ? call_.bytes : strip_bytes;
      for (size_t at = begin; at < call_.bytes; at += strip) {
        const size_t end = call_.bytes - at < strip ? call_.bytes : at + strip;
        each_group([&](unsigned g) { all_sources(g, fetches && g == 0 ? ahead : nullptr, at, end, stream); });
      }
    } else {
      const size_t end = begin + (call_.bytes - begin) / T::width * T::width;
      walk_tiles(ahead, begin, end, stream);
      if (end != call_.bytes)
        each_group([&](unsigned g) { all_sources(g, nullptr, end, call_.bytes, false); });
    }
    if (stream) _mm_sfence();
  }

  template <class F>
  void each_group(F&& f) const {
    for (unsigned g = 0; g < groups_; ++g) f(g);
  }

  unsigned first_row(unsigned g) const { return part_begin(call_.target_count, groups_, g); }
  unsigned rows(unsigned g) const {
    return groups_ == 1 ? call_.target_count : first_row(g + 1) - first_row(g);
  }
  FirstRow first_row_is(unsigned g) const {
    if (g != 0) return FirstRow::general;
    if (call_.first_is_xor) return FirstRow::ones;
    return call_.folded != 0 && groups_ == 1 && !call_.accumulate ? FirstRow::folded : FirstRow::general;
  }
  const uint8_t* coefficients(unsigned g, unsigned source) const {
    return call_.coefficients +
           (size_t{first_row(g)} * call_.source_count + size_t{rows(g)} * source) * T::coefficient_bytes;
  }

  GroupPass pass_over_all(unsigned g) const {
    uint8_t* const* targets = call_.targets + first_row(g);
    return {.sources = call_.sources,
            .source_count = call_.source_count,
            .coefficients = coefficients(g, 0),
            .in = call_.accumulate ? targets : nullptr,
            .out = targets,
            .summed = call_.folded};
  }

  void all_sources(unsigned g, const uint8_t* const* ahead, size_t begin, size_t end, bool stream) const {
    GroupPass pass = pass_over_all(g);
    pass.ahead = ahead;
    pass.stream = stream;
    code(g, pass, begin, end);
  }

  void code(unsigned g, const GroupPass& pass, size_t begin, size_t end) const {
    const auto first = static_cast<unsigned>(first_row_is(g));
    const Range* by_rows = by_first<T, false>[first];
    if constexpr (T::short_vectors != 0)
      if (call_.walk.short_blocks) by_rows = by_first<T, true>[first];
    by_rows[rows(g) - 1](pass, begin, end);
  }

  [[gnu::noinline]] void walk_tiles(const uint8_t* const* ahead, size_t begin, size_t end,
                                    bool stream) const {
    alignas(64) uint8_t sums[tile_sums_bytes];
    uint8_t* sum_rows[max_pass_rows];
    for (unsigned r = 0; r < call_.target_count; ++r) sum_rows[r] = sums + r * call_.walk.tile_bytes;
    const unsigned k = call_.source_count;
    const unsigned source_groups = (k + call_.walk.group_sources - 1) / call_.walk.group_sources;
    for (size_t tile = begin; tile < end; tile += call_.walk.tile_bytes) {
      const size_t tile_end = end - tile < call_.walk.tile_bytes ? end : tile + call_.walk.tile_bytes;
      for (unsigned part = 0; part < source_groups; ++part) {
        const unsigned first = k * part / source_groups;
        const unsigned count = k * (part + 1) / source_groups - first;
        const bool is_first = part == 0;
        const bool is_last = part + 1 == source_groups;
        for (unsigned g = 0; g < groups_; ++g) {
          uint8_t* const* kept = sum_rows + first_row(g);
          GroupPass pass = pass_over_all(g);
          pass.sources += first;
          pass.ahead = g == 0 ? ahead + first : nullptr;
          pass.source_count = count;
          pass.coefficients = coefficients(g, first);
          if (!is_first) pass.in = kept;
          pass.in_origin = is_first ? 0 : tile;
          if (!is_last) pass.out = kept;
          pass.out_origin = is_last ? 0 : tile;
          pass.stream = is_last && stream;
          pass.summed = call_.folded <= first          ? 0
                        : call_.folded - first < count ? call_.folded - first
                                                       : count;
          pass.fold = is_last;
          code(g, pass, tile, tile_end);
        }
      }
    }
  }

  /// For each source the source to fetch: group_sources places later, in the next tile where the order of use
  /// wraps; or, without tiles, the source itself, ahead_bytes later.
  void fill_ahead(const uint8_t** ahead) const {
    const unsigned k = call_.source_count;
    for (unsigned s = 0; s < k; ++s) {
      const unsigned place = s + call_.walk.group_sources;
      ahead[s] = call_.sources[place % k] + place / k * call_.walk.tile_bytes + call_.walk.ahead_bytes;
    }
  }

  const ProductCall& call_;
  unsigned groups_;
};

template <class T>
[[gnu::noinline]] void run_any(const ProductCall& call) {
  Coder<T>(call).run();
}
/// A short call has its coder in registers: 0.5 to 0.8 ns of apply_delta of Ceph 20 on a Zen 5.
template <class T>
void run_call(const ProductCall& call) {
  if (!Coder<T>(call).run_short()) run_any<T>(call);
}
