// libec_isal.so beside the real ISA-L, call by call: what it writes, and which of both codes.
//
// Environment: EC_ISAL_CALLS: random calls in place of the default. EC_ISAL_SEED: of them.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/backends.hpp"
#include "kernels/x86/backend.hpp"
#include "plugin/codec/stats/stats_page.hpp"
#include "tests/common/oracle.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// The seven functions of one library.
struct Library {
  explicit Library(const char* path) {
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw std::runtime_error(dlerror());
    find(handle, "ec_init_tables", init_tables);
    find(handle, "ec_encode_data", encode);
    find(handle, "ec_encode_data_update", update);
    find(handle, "gf_vect_mul_init", multiply_init);
    find(handle, "gf_vect_mul", multiply);
    find(handle, "gf_vect_dot_prod", dot_product);
    find(handle, "gf_vect_mad", multiply_add);
  }
  template <class Function>
  static void find(void* handle, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(handle, name));
    if (function == nullptr) throw std::runtime_error(name);
  }
  void (*init_tables)(int, int, unsigned char*, unsigned char*);
  void (*encode)(int, int, int, unsigned char*, unsigned char**, unsigned char**);
  void (*update)(int, int, int, int, unsigned char*, unsigned char*, unsigned char**);
  void (*multiply_init)(unsigned char, unsigned char*);
  int (*multiply)(int, unsigned char*, void*, void*);
  void (*dot_product)(int, int, unsigned char*, unsigned char**, unsigned char*);
  void (*multiply_add)(int, int, int, unsigned char*, unsigned char*, unsigned char*);
};

const Library& ours() {
  static const Library library(EC_ISAL_DOOR);
  return library;
}
const Library& real() {
  static const Library library(EC_REAL_ISAL);
  return library;
}

std::uint64_t from_environment(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 0);
}

/// A matrix, its tables of both libraries, and chunks in one block of memory.
struct Draw {
  Random& random;
  int k, rows, bytes;
  Bytes matrix, memory;
  Bytes our_tables, real_tables;
  std::vector<std::size_t> sources, targets;  ///< where they begin in the memory

  Draw(Random& r, int k_, int rows_, int bytes_) : random(r), k(k_), rows(rows_), bytes(bytes_) {
    const auto cells = static_cast<unsigned>(k * rows);
    matrix = random.bytes(cells);
    // As generator matrices have them, and plans: rows of ones, zeros, and a row that is the sum of all.
    if (random.below(3) == 0) {
      const unsigned row = random.below(static_cast<unsigned>(rows));
      std::fill_n(matrix.begin() + row * k, k, std::uint8_t{1});
    }
    if (random.below(4) == 0)
      for (unsigned i = 0; i < cells; ++i)
        if (random.below(3) == 0) matrix[i] = 0;
    if (rows > 1 && random.below(4) == 0) {
      const int ones = static_cast<int>(random.below(static_cast<unsigned>(k + 1)));
      for (int c = 0; c < k; ++c) {
        std::uint8_t& first = matrix[static_cast<unsigned>(c)] = c < ones;
        for (int row = 1; row < rows; ++row) first ^= matrix[static_cast<unsigned>(row * k + c)];
      }
    }
    our_tables.resize(cells * 32u);
    real_tables.resize(cells * 32u);
    ours().init_tables(k, rows, matrix.data(), our_tables.data());
    real().init_tables(k, rows, matrix.data(), real_tables.data());
    std::size_t end = random.below(64);
    for (int i = 0; i < k + rows; ++i) {
      (i < k ? sources : targets).push_back(end);
      end += static_cast<unsigned>(bytes) + (random.below(2) == 0 ? 0 : random.below(80));
    }
    memory = random.bytes(end + 64);
  }

  /// The memory after the call. first_row: where the tables are entered. column: of an update; negative:
  /// encode.
  Bytes after(const Library& library, Bytes tables, int first_row, int column, bool single = false) const {
    Bytes all = memory;
    std::vector<unsigned char*> from, to;
    for (const auto at : sources) from.push_back(all.data() + at);
    for (const auto at : targets) to.push_back(all.data() + at);
    unsigned char* entered = tables.data() + first_row * k * 32;
    unsigned char** const outputs = to.data() + first_row;
    if (column < 0)
      single ? library.dot_product(bytes, k, entered, from.data(), *outputs)
             : library.encode(bytes, k, rows - first_row, entered, from.data(), outputs);
    else
      single ? library.multiply_add(bytes, k, column, entered, from[static_cast<unsigned>(column)], *outputs)
             : library.update(bytes, k, rows - first_row, column, entered,
                              from[static_cast<unsigned>(column)], outputs);
    return all;
  }
};

int draw_length(Random& random, int coefficients) {
  const unsigned most = coefficients > 2000 ? 600 : 70000;
  switch (random.below(8)) {
    case 0:
      return static_cast<int>(random.below(4));
    case 1:
    case 2:
      return static_cast<int>(random.below(70));
    case 3:
      return static_cast<int>(std::min(most, 32 * random.below(64)));
    case 4:
      return static_cast<int>(random.below(most));
    default:
      return static_cast<int>(random.below(600));
  }
}

/// One random call; the seed of what differed.
::testing::AssertionResult compare_one(std::uint64_t seed) {
  Random random(seed);
  const bool wide = random.below(64) == 0;
  const int k = static_cast<int>(1 + random.below(wide ? 255 : 20));
  const int rows = static_cast<int>(1 + random.below(wide ? static_cast<unsigned>(256 - k) : 8));
  const int bytes = draw_length(random, k * rows);
  const Draw draw(random, k, rows, bytes);
  const int first_row =
      random.below(4) == 0 ? static_cast<int>(random.below(static_cast<unsigned>(rows))) : 0;
  const int column = random.below(3) == 0 ? static_cast<int>(random.below(static_cast<unsigned>(k))) : -1;
  // For less than a vector ISA-L's functions of one row do nothing; ours code.
  const bool single = bytes >= 64 && random.below(8) == 0;
  // ISA-L 2.31 has two layouts at a time: what it says of one row is that of ec_encode_data.
  if (single) {
    Draw one = draw;
    one.rows = first_row + 1;
    if (draw.after(ours(), draw.our_tables, first_row, column, true) ==
        one.after(real(), draw.real_tables, first_row, column))
      return ::testing::AssertionSuccess();
  } else if (draw.after(ours(), draw.our_tables, first_row, column) ==
             draw.after(real(), draw.real_tables, first_row, column)) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "EC_ISAL_SEED=" << seed << ": k=" << k << " rows=" << rows << " bytes=" << bytes << " first row "
         << first_row << " column " << column << " single " << single;
}

TEST(IsalDoor, RandomCallsAreAsByTheRealLibrary) {
  const std::uint64_t calls = from_environment("EC_ISAL_CALLS", 20'000);
  const std::uint64_t seed = from_environment("EC_ISAL_SEED", 1);
  for (std::uint64_t i = 0; i < calls; ++i) ASSERT_TRUE(compare_one(seed + i));
}

TEST(IsalDoor, LongChunksAreAsByTheRealLibrary) {
  Random random(2);
  for (const auto& [k, rows] : {std::pair{4, 2}, {10, 4}, {1, 1}, {20, 9}, {3, 12}})
    for (const int bytes : {104858, 1 << 20, (2 << 20) + 17}) {
      const Draw draw(random, k, rows, bytes);
      ASSERT_TRUE(draw.after(ours(), draw.our_tables, 0, -1) == draw.after(real(), draw.real_tables, 0, -1))
          << k << "+" << rows << " " << bytes;
      ASSERT_TRUE(draw.after(ours(), draw.our_tables, 0, k / 2) ==
                  draw.after(real(), draw.real_tables, 0, k / 2))
          << "update " << k << "+" << rows << " " << bytes;
    }
}

TEST(IsalDoor, TablesHaveTheClassicLayout) {
  Bytes matrix(256), tables(256 * 32), table(32);
  for (unsigned c = 0; c < 256; ++c) matrix[c] = static_cast<std::uint8_t>(c);
  ours().init_tables(256, 1, matrix.data(), tables.data());
  for (unsigned c = 0; c < 256; ++c) {
    ours().multiply_init(static_cast<unsigned char>(c), table.data());
    EXPECT_EQ(0, std::memcmp(table.data(), tables.data() + c * 32, 32));
    for (unsigned i = 0; i < 16; ++i) {
      EXPECT_EQ(table[i], oracle::mul(static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(i)));
      EXPECT_EQ(table[16 + i], oracle::mul(static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(i << 4)));
    }
  }
}

// ISA-L wants the target on 32 bytes, writes 32 bytes for a length of 0, and more than the length for one
// that is not a multiple of 32, for which it answers as here.
TEST(IsalDoor, MultipliesAsTheRealLibrary) {
  Random random(3);
  constexpr std::size_t most = 400, room = 448;
  struct Chunks {
    alignas(64) std::array<std::uint8_t, room> from;
    alignas(64) std::array<std::uint8_t, room> to{};
    bool operator==(const Chunks&) const = default;
  };
  for (int bytes = 1; bytes <= int{most}; ++bytes)
    for (const bool in_place : {false, true}) {
      Chunks before;
      std::ranges::copy(random.bytes(room), before.from.begin());
      const auto c = static_cast<unsigned char>(random.below(256));
      const auto run = [&](const Library& library, Chunks* chunks) {
        Bytes table(32);
        library.multiply_init(c, table.data());
        return library.multiply(bytes, table.data(), chunks->from.data(),
                                in_place ? chunks->from.data() : chunks->to.data());
      };
      Chunks by_ours = before, by_real = before;
      EXPECT_EQ(run(ours(), &by_ours), run(real(), &by_real)) << bytes;
      EXPECT_TRUE(by_ours == by_real) << bytes << (in_place ? " in place" : "");
    }
}

// What ISA-L makes of chunks that overlap depends on its version; here it is that of the real library.
TEST(IsalDoor, OverlappingChunksAreAsByTheRealLibrary) {
  Random random(4);
  for (unsigned round = 0; round < 3000; ++round) {
    const int k = static_cast<int>(1 + random.below(8)), rows = static_cast<int>(1 + random.below(6));
    Draw draw(random, k, rows, static_cast<int>(64 + random.below(1000)));
    const unsigned target = random.below(static_cast<unsigned>(rows));
    const bool in_place = random.below(2) == 0;
    const std::size_t onto = draw.sources[random.below(static_cast<unsigned>(k))];
    draw.targets[target] = in_place ? onto : onto / 2 + random.below(40);
    const int column = random.below(2) == 0 ? -1 : static_cast<int>(random.below(static_cast<unsigned>(k)));
    ASSERT_TRUE(draw.after(ours(), draw.our_tables, 0, column) ==
                draw.after(real(), draw.real_tables, 0, column))
        << "round " << round;
  }
}

TEST(IsalDoor, NothingIsDoneForNothing) {
  Random random(5);
  for (const int bytes : {0, -1, -64}) {
    Draw draw(random, 4, 2, 64);
    draw.bytes = bytes;
    EXPECT_EQ(draw.after(ours(), draw.our_tables, 0, -1), draw.memory) << bytes;
    EXPECT_EQ(draw.after(ours(), draw.our_tables, 0, 1), draw.memory) << bytes;
  }
  Bytes table(32), one(1, 7);
  ours().multiply_init(5, table.data());
  for (const int bytes : {0, -32})
    EXPECT_EQ(ours().multiply(bytes, table.data(), one.data(), one.data()), 0) << bytes;
  EXPECT_EQ(one[0], 7);
  Draw draw(random, 4, 2, 64);
  draw.rows = 0;
  EXPECT_EQ(draw.after(ours(), draw.our_tables, 0, -1), draw.memory);
}

/// The pages of counts that this process has: of this program, and of the library.
std::vector<const codec::StatsPage*> pages() {
  std::vector<const codec::StatsPage*> found;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(file, gone).native().find(codec::stats_file_name) == std::string::npos)
      continue;
    const int descriptor = std::stoi(file.path().filename());
    void* page = mmap(nullptr, sizeof(codec::StatsPage), PROT_READ, MAP_SHARED, descriptor, 0);
    if (page != MAP_FAILED) found.push_back(static_cast<const codec::StatsPage*>(page));
  }
  return found;
}

std::uint64_t calls_of_our_kernels() {
  std::uint64_t calls = 0;
  for (const auto* page : pages())
    if (std::string_view(page->backends[0].data()) == "x86" && page->backends[1][0] == 0)
      calls += codec::sum(*page, 0, codec::Operation::encode).calls;
  return calls;
}

// As `ectool stats` reads it.
TEST(IsalDoor, WhatOurKernelsCodeIsCounted) {
  Random random(6);
  const Draw draw(random, 4, 2, 4096);
  draw.after(ours(), draw.our_tables, 0, -1);
  const auto before = calls_of_our_kernels();
  for (unsigned i = 0; i < 10; ++i) draw.after(ours(), draw.our_tables, 0, -1);
  EXPECT_EQ(calls_of_our_kernels(), before + (kernels::x86::backend().runs_here() ? 10 : 0));
}

// The judge of our kernels must not be our kernels.
TEST(IsalDoor, OurOwnBackEndIsTheRealLibraryBehindIt) {
  if (dlsym(RTLD_DEFAULT, "ec_isal_real") == nullptr) GTEST_SKIP() << "the library was not preloaded";
  Random random(8);
  const kernels::Program program(gf::Matrix(2, 2));
  auto chunks = random.chunks(4, 4096);
  const std::array sources{kernels::Source{chunks[0].data()}, kernels::Source{chunks[1].data()}};
  const std::array targets{kernels::Target{chunks[2].data()}, kernels::Target{chunks[3].data()}};
  kernels::Backend* const isal = kernels::find_backend("isal");
  const Draw draw(random, 4, 2, 4096);
  draw.after(ours(), draw.our_tables, 0, -1);
  const auto before = calls_of_our_kernels();
  ASSERT_EQ(isal->transform({&program, sources, targets, 4096}), kernels::Status::ok);
  EXPECT_EQ(calls_of_our_kernels(), before);
  EXPECT_EQ(chunks[2], Bytes(4096)) << "the matrix is zero";
}

TEST(IsalDoorThreads, CallsOfManyThreads) {
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (std::uint64_t i = 0; i < 300; ++i) EXPECT_TRUE(compare_one(1000 * t + i));
    });
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace ec::test
