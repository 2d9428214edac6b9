#include "plugin/isal/door.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include "kernels/backends.hpp"
#include "kernels/x86/coefficients.hpp"
#include "kernels/x86/walk.hpp"
#include "plugin/codec/checking/block_check.hpp"
#include "plugin/codec/checking/pace.hpp"
#include "plugin/codec/stats/stats.hpp"

namespace ec::isal {
namespace {

namespace x86 = kernels::x86;

/// What lies on the stack at a time; a call of more coefficients is coded in several passes.
constexpr unsigned most_coefficients = 2048;
constexpr std::size_t most_expanded_bytes = 16384;
/// Columns in one pass, as many as the kernels take.
constexpr unsigned most_columns = 255;
constexpr unsigned most_table_entries = 4 * most_columns;

/// Whether the two share a byte.
bool overlap(const unsigned char* a, const unsigned char* b, std::size_t bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return x < y + bytes && y < x + bytes;
}

bool has_overlap(const Call& call) {
  const auto bytes = static_cast<std::size_t>(call.bytes);
  for (int t = 0; t < call.rows; ++t) {
    for (int s = 0; s < call.k; ++s)
      if (overlap(call.targets[t], call.sources[s], bytes)) return true;
    for (int other = 0; other < t; ++other)
      if (overlap(call.targets[t], call.targets[other], bytes)) return true;
  }
  return false;
}

/// Whether the real library codes so little before we have read its tables. Only where it can take the
/// caller's. Measured on a Xeon with GFNI against ISA-L 2.30, with its instruction set and ours alike (AVX2,
/// AVX-512) and with GFNI: both are as fast in chunks of 250 to 450 bytes at 8+3, 10+4 and 20+4, of 500 at
/// 6+1, of 600 at 4+2, and of 1100 at 2+1.
bool is_small(const Call& call) {
  constexpr int never_faster_bytes = 300;
  constexpr std::int64_t products = 2400;
  return (std::int64_t{call.bytes} - never_faster_bytes) * call.k * call.rows < products;
}

/// As our own plugin walks, but past the cache only in jobs of more than 32 MiB, sources and targets. On a
/// Xeon with 2 MiB of second-level cache, and 3 to 24 MiB that the third level holds, streaming codes 4+2 at
/// 0.8 to 0.9 of the speed of ISA-L 2.30, ordinary stores at 1.0 to 1.1; where no cache holds them, 1.5
/// and 1.2 of it. A caller that had ISA-L must not get slower, so it is ordinary stores.
x86::Walk walk_of(unsigned columns, unsigned rows, std::size_t bytes, bool accumulate) {
  constexpr std::size_t most_ordinary = std::size_t{32} << 20;
  x86::Walk walk = x86::choose_walk(columns, rows, bytes, accumulate);
  walk.stream = walk.stream && bytes * (columns + rows) > most_ordinary;
  return walk;
}

std::size_t place_of(std::string_view name) {
  const auto list = kernels::backends();
  const auto found = std::ranges::find(list, name, &kernels::Backend::name);
  return static_cast<std::size_t>(found - list.begin());
}

x86::Form form_of(x86::Isa isa) {
  return isa == x86::Isa::gfni512 || isa == x86::Isa::gfni256 ? x86::Form::affine : x86::Form::shuffle;
}

thread_local codec::Pace pace{};

}  // namespace

void Tables::read(unsigned row, unsigned rows, unsigned column, unsigned columns,
                  unsigned char* to) const noexcept {
  const std::ptrdiff_t row_bytes = std::ptrdiff_t{entry_bytes} * k;
  const unsigned char* from = first + row * row_bytes + std::ptrdiff_t{entry_bytes} * column + 1;
  for (unsigned r = 0; r < rows; ++r, from += row_bytes)
    for (unsigned c = 0; c < columns; ++c) *to++ = from[std::size_t{entry_bytes} * c];
}

Door::Door(const Real& real, const x86::X86& ours, unsigned every)
    : real_(real), ours_(ours.isa()), every_(every), in_backends_(place_of("x86")), off_(!ours.runs_here()) {}

void Door::encode(const Call& call) noexcept {
  if (call.bytes <= 0 || call.rows <= 0) return;
  if (is_real_ones(call)) return by_real(call);
  codec::Stats::Job job(codec::stats(), codec::Operation::encode,
                        static_cast<std::uint64_t>(call.k) * static_cast<unsigned>(call.bytes));
  job.begins();
  every_ != 0 && pace.is_due(1, every_) ? checked(call) : by_ours(call);
  job.finished(in_backends_);
}

bool Door::is_real_ones(const Call& call) const noexcept {
  return (real_.classic_tables && is_small(call)) || is_off() || call.k <= 0 || has_overlap(call);
}

void Door::by_ours(const Call& call) const noexcept {
  const x86::Form form = form_of(ours_);
  const Tables tables{call.tables, call.k};
  std::uint8_t cells[most_coefficients];
  alignas(64) std::uint8_t expanded[most_expanded_bytes];
  std::uint8_t* targets[x86::max_pass_rows];
  const auto bytes = static_cast<std::size_t>(call.bytes);
  const auto all_rows = static_cast<unsigned>(call.rows), all_columns = static_cast<unsigned>(call.k);
  const unsigned columns_at_once = std::min(all_columns, most_columns);
  const unsigned fit =
      std::min(most_coefficients, static_cast<unsigned>(most_expanded_bytes / x86::coefficient_bytes(form)));
  const unsigned rows_at_once = std::min(x86::max_pass_rows, fit / columns_at_once);
  for (unsigned row = 0; row < all_rows; row += rows_at_once) {
    const unsigned rows = std::min(rows_at_once, all_rows - row);
    for (unsigned column = 0; column < all_columns; column += columns_at_once) {
      const unsigned columns = std::min(columns_at_once, all_columns - column);
      const bool accumulate = column != 0;
      tables.read(row, rows, column, columns, cells);
      const x86::Pattern pattern = x86::expand({cells, std::size_t{rows} * columns}, rows, form, expanded);
      std::copy_n(call.targets + row, rows, targets);
      std::swap(targets[0], targets[pattern.first]);
      x86::call_kernel(ours_,
                       {call.sources + column, targets, columns, rows, bytes, expanded, pattern.first_is_xor,
                        pattern.folded, accumulate, walk_of(columns, rows, bytes, accumulate)});
    }
  }
}

void Door::by_real(const Call& call) const noexcept {
  if (real_.classic_tables || call.k <= 0)
    return real_.encode(call.bytes, call.k, call.rows, call.tables, call.sources, call.targets);
  encode_with_its_tables(call);
}

void Door::update(int bytes, int k, int rows, int column, unsigned char* tables, unsigned char* source,
                  unsigned char** targets) const noexcept {
  if (bytes <= 0 || rows <= 0) return;
  if (real_.classic_tables) return real_.update(bytes, k, rows, column, tables, source, targets);
  update_with_its_tables(bytes, {tables, k}, rows, column, source, targets);
}

void Door::encode_with_its_tables(const Call& call) const noexcept {
  const Tables tables{call.tables, call.k};
  std::uint8_t cells[most_table_entries];
  alignas(64) unsigned char own[most_table_entries * entry_bytes];
  const auto all_rows = static_cast<unsigned>(call.rows), all_columns = static_cast<unsigned>(call.k);
  const unsigned columns = std::min(all_columns, most_columns);
  const unsigned rows_at_once = most_table_entries / columns;
  for (unsigned row = 0; row < all_rows; row += rows_at_once) {
    const unsigned rows = std::min(rows_at_once, all_rows - row);
    const int width = static_cast<int>(columns), height = static_cast<int>(rows);
    tables.read(row, rows, 0, columns, cells);
    real_.init_tables(width, height, cells, own);
    real_.encode(call.bytes, width, height, own, call.sources, call.targets + row);
    for (unsigned column = columns; column < all_columns; ++column)
      update_with_its_tables(call.bytes, {call.tables + std::size_t{row} * all_columns * entry_bytes, call.k},
                             height, static_cast<int>(column), call.sources[column], call.targets + row);
  }
}

void Door::update_with_its_tables(int bytes, Tables tables, int rows, int column, unsigned char* source,
                                  unsigned char** targets) const noexcept {
  std::uint8_t cells[most_table_entries];
  alignas(64) unsigned char own[most_table_entries * entry_bytes];
  for (int row = 0; row < rows; row += int{most_table_entries}) {
    const int height = std::min(int{most_table_entries}, rows - row);
    tables.read(static_cast<unsigned>(row), static_cast<unsigned>(height), static_cast<unsigned>(column), 1,
                cells);
    real_.init_tables(1, height, cells, own);
    real_.update(bytes, 1, height, 0, own, source, targets + row);
  }
}

int Door::multiply(int bytes, unsigned char* table, void* source, void* target) noexcept {
  constexpr int granularity = 32;
  auto* from = static_cast<unsigned char*>(source);
  auto* to = static_cast<unsigned char*>(target);
  if (bytes <= 0) return 0;
  if (bytes % granularity != 0 || overlap(from, to, static_cast<std::size_t>(bytes))) {
    unsigned char own[entry_bytes];
    real_.multiply_init(table[1], own);
    return real_.multiply(bytes, own, source, target);
  }
  encode({bytes, 1, 1, table, &from, &to});
  return 0;
}

void Door::checked(const Call& call) noexcept {
  by_ours(call);
  // Heads and tails have code of their own in every kernel.
  const auto bytes = static_cast<std::size_t>(call.bytes);
  const std::size_t longest = codec::longest_block(static_cast<std::size_t>(call.rows));
  const std::size_t block = std::min(bytes, std::max<std::size_t>(longest, 64));
  const std::size_t last = bytes - block;
  const std::size_t offsets[] = {0, last, pace.draw(last + 1)};
  const Finding found = compare(call, offsets[pace.draw(std::size(offsets))], block);

  codec::Checks& counts = codec::stats().page().checks[in_backends_];
  kernels::add(found == Finding::unknown ? counts.unchecked : counts.checked, 1);
  if (found != Finding::wrong) return;
  kernels::add(counts.mismatches, 1);
  if (!off_.exchange(true))
    std::fprintf(stderr,
                 "libec_isal: our kernels gave wrong bytes and are not used again by this process; the real "
                 "library codes in their place: %dx%d, chunks of %d bytes\n",
                 call.rows, call.k, call.bytes);
  by_real(call);
}

Door::Finding Door::compare(const Call& call, std::size_t offset, std::size_t bytes) const noexcept try {
  std::vector<unsigned char*> sources(call.sources, call.sources + call.k);
  std::vector<unsigned char*> targets(static_cast<std::size_t>(call.rows));
  std::vector<unsigned char> made(targets.size() * bytes);
  for (auto& source : sources) source += offset;
  for (std::size_t r = 0; r < targets.size(); ++r) targets[r] = made.data() + r * bytes;
  by_real({static_cast<int>(bytes), call.k, call.rows, call.tables, sources.data(), targets.data()});
  for (std::size_t r = 0; r < targets.size(); ++r)
    if (std::memcmp(call.targets[r] + offset, targets[r], bytes) != 0) return Finding::wrong;
  return Finding::right;
} catch (const std::bad_alloc&) {
  return Finding::unknown;
}

}  // namespace ec::isal
