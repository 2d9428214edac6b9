// Our plugin against Ceph's own isa and jerasure in one process, under its own name and under theirs: the
// same sizes, answers and bytes by every function, and each decodes what the other wrote. Runs in hosts of
// every release (tools/ceph-release). EC_TEST_SEED repeats a run; every failure names its draw.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "tests/plugin/ceph/comparison.hpp"
#include "tests/plugin/ceph/roles.hpp"

namespace ec::test {
namespace {

/// Codes that differ in shape alone.
struct Family {
  bool in_role;
  std::string role, technique;
  unsigned least_m, most_m;  ///< that it takes; 10: more than is tried

  Pair pair(unsigned k, unsigned m, Profile others = {}) const {
    const auto made = [&](const std::string& plugin, const std::string& by) {
      Profile profile = profile_of(by, k, m);
      profile.insert(others.begin(), others.end());
      return Code(make(plugin, profile));
    };
    const bool by_its_name = !in_role && role == "jerasure";
    return {made(in_role ? role : "cuda", (by_its_name ? "jerasure_" : "") + technique),
            made("stock" + role, technique),
            in_role,
            {},
            !by_its_name};
  }
  std::string name() const { return (in_role ? "as_" : "beside_") + role + "_" + technique; }
};
const Family families[] = {
    {false, "isa", "reed_sol_van", 1, 4},       {false, "isa", "cauchy", 1, 10},
    {false, "jerasure", "reed_sol_van", 1, 10}, {false, "jerasure", "reed_sol_r6_op", 2, 2},
    {true, "isa", "reed_sol_van", 1, 4},        {true, "isa", "cauchy", 1, 10},
    {true, "jerasure", "reed_sol_van", 1, 10},  {true, "jerasure", "reed_sol_r6_op", 2, 2}};

// An ISA-L that this program exposed would take the place of the one in the stock plugin, and our plugin
// would be compared with itself.
TEST(Identity, EachPluginRunsItsOwnIsaL) { EXPECT_EQ(dlsym(RTLD_DEFAULT, "ec_encode_data"), nullptr); }

class Identity : public testing::TestWithParam<Family> {
 protected:
  /// `use(pair)` for every shape of up to 20+6.
  template <class Use>
  void for_shapes(Use use) {
    const Family& family = GetParam();
    for (unsigned k = 2; k <= 20; ++k)
      for (unsigned m = family.least_m; m <= std::min(family.most_m, 6u); ++m) {
        SCOPED_TRACE(fmt::format("{}+{}", k, m));
        use(family.pair(k, m));
        if (HasFailure()) return;
      }
  }
  Draw draw_{base_seed()};
};
INSTANTIATE_TEST_SUITE_P(Families, Identity, testing::ValuesIn(families),
                         [](const auto& info) { return info.param.name(); });

TEST_P(Identity, EveryShape) {
  for_shapes([&](const Pair& pair) {
    const unsigned k = pair.stock.k();
    for (const std::size_t bytes : {std::size_t{k} * 4096, draw_.length(200'000), draw_.length(5000)})
      Comparison(pair, draw_, bytes).run();
  });
}

TEST_P(Identity, ChunkSizeForEveryWidth) {
  for_shapes([&](const Pair& pair) {
    const auto compare = [&](unsigned width) {
      ASSERT_EQ(pair.ours.sizes(width), pair.stock.sizes(width)) << width;
    };
    for (unsigned width = 1; width <= 32 * 33 * 4 && !HasFailure(); ++width) compare(width);
    for (unsigned i = 0; i < 500; ++i) compare(static_cast<unsigned>(draw_.length(std::uint64_t{1} << 31)));
  });
}

TEST_P(Identity, EveryLengthAroundChunkAndAlignment) {
  const unsigned m = std::max(2u, GetParam().least_m);
  for (const unsigned k : {2u, 4u, 7u}) {
    const Pair pair = GetParam().pair(k, m);
    for (std::size_t length = 1; length <= 32 * k * 2 + k + 1 && !HasFailure(); ++length)
      Comparison(pair, draw_, length).run();
  }
}

TEST_P(Identity, RandomCalls) {
  constexpr unsigned shapes = 60, draws = 125;
  for (unsigned i = 0; i < shapes; ++i) {
    const std::uint64_t seed = base_seed() + i;
    Draw draw(seed);
    const unsigned k = static_cast<unsigned>(draw.number(2, 20));
    const unsigned m =
        static_cast<unsigned>(draw.number(GetParam().least_m, std::min(GetParam().most_m, 6u)));
    SCOPED_TRACE(fmt::format("{}+{}, shape {} (EC_TEST_SEED={} makes it the first)", k, m, i, seed));
    const Pair pair = GetParam().pair(k, m);
    for (unsigned d = 0; d < draws && !HasFailure(); ++d)
      Comparison(pair, draw, draw.length(d % 20 == 0 ? 4 << 20 : 256 << 10)).run();
    if (HasFailure()) return;
  }
}

TEST_P(Identity, HugeInputs) {
  for (const std::size_t length :
       {(std::size_t{64} << 20) + 1, static_cast<std::size_t>(draw_.number(8'000'000, 70'000'000))}) {
    const auto in = draw_.bytes(length, 3);
    const Pair pair =
        GetParam().pair(static_cast<unsigned>(draw_.number(2, 12)), std::max(2u, GetParam().least_m));
    const Chunks right = pair.stock.encode(in);
    EXPECT_EQ(difference(pair.ours.encode(in), right, first_chunks(pair.stock.n())), "");
    EXPECT_EQ(difference(pair.ours.decode(right, {0, 1}), right, {0, 1}), "");
  }
}

// The stock plugin divides by zero here, so only ours is asked.
TEST_P(Identity, NothingEncodesToEmptyChunks) {
  for_shapes([](const Pair& pair) {
    const Chunks ours = pair.ours.encode({});
    ASSERT_EQ(ours.size(), pair.ours.n());
    for (const auto& [c, bytes] : ours) ASSERT_EQ(bytes.length(), 0u) << "chunk " << c;
  });
}

/// Calls `use` with every set of 1 to m of n chunks.
template <class Use>
void each_loss(unsigned n, unsigned m, Use use) {
  for (unsigned bits = 1; bits < 1u << n; ++bits) {
    std::set<int> lost;
    for (unsigned c = 0; c < n; ++c)
      if ((bits >> c & 1) != 0) lost.insert(static_cast<int>(c));
    if (lost.size() <= m) use(lost);
  }
}

TEST_P(Identity, EveryLossOfCodesOfUpTo12Chunks) {
  const Family& family = GetParam();
  unsigned decoded = 0;
  for (unsigned n = 3; n <= 12; ++n)
    for (unsigned m = family.least_m; m <= std::min(family.most_m, n - 2); ++m) {
      SCOPED_TRACE(fmt::format("{}+{}", n - m, m));
      const Pair pair = family.pair(n - m, m);
      const auto in = draw_.bytes((n - m) * 96, 3);
      const Chunks all = pair.stock.encode(in);
      ASSERT_EQ(difference(pair.ours.encode(in), all, first_chunks(n)), "");
      each_loss(n, m, [&](const std::set<int>& lost) {
        ++decoded;
        ASSERT_EQ(difference(pair.ours.decode(all, lost), all, lost), "") << fmt::format("lost {}", lost);
      });
      if (HasFailure()) return;
    }
  fmt::print("{} losses decoded\n", decoded);
}

TEST(Identity, OfWideCodesAndOfChunksThatAreAlignedByThemselves) {
  Draw draw(base_seed());
  for (const auto& [family, k, m] : {std::tuple(1, 32u, 8u),
                                     {0, 21, 4},
                                     {0, 32, 3},
                                     {6, 64, 60},
                                     {6, 100, 20},
                                     {6, 120, 3},
                                     {6, 32, 30}}) {
    SCOPED_TRACE(fmt::format("{} {}+{}", families[family].name(), k, m));
    const Pair pair = families[family].pair(k, m);
    for (unsigned i = 0; i < 3; ++i) Comparison(pair, draw, draw.length(200'000)).run();
  }
  for (const unsigned k : {2u, 4u, 7u, 8u, 12u}) {
    const Pair pair = families[6].pair(k, 3, {{"jerasure-per-chunk-alignment", "true"}});
    for (unsigned i = 0; i < 20; ++i) Comparison(pair, draw, k * 128 + draw.length(100'000)).run();
  }
}

/// Where Ceph's plugins cannot say it: by the door of this host, and by Ceph 20's.
TEST(Identity, OfMappedChunksByBothDoors) {
  Draw draw(base_seed());
  for (const auto& [technique, mapping] : {std::pair("reed_sol_van", "DDDD__"),
                                           {"cauchy", "_DD_DD"},
                                           {"reed_sol_van", "DDD_DDDD_D_"},
                                           {"cauchy", "DDD_"},
                                           {"cauchy", "____DDDDDDDDDD"},
                                           {"cauchy", "DDDDDDDDDDDDDDDDDDDD______"},
                                           {"reed_sol_van", "DD_"}}) {
    SCOPED_TRACE(mapping);
    std::vector<int> shards;
    for (const char kind : {'D', '_'})
      for (int s = 0; mapping[s] != '\0'; ++s)
        if (mapping[s] == kind) shards.push_back(s);
    const auto k = static_cast<unsigned>(std::ranges::count(std::string_view(mapping), 'D'));
    Profile profile = profile_of(technique, k, static_cast<unsigned>(shards.size()) - k);
    Code stock(make("stockisa", profile));
    profile["mapping"] = mapping;
    const auto tentacle = std::make_shared<ceph::Tentacle>();
    ASSERT_EQ(tentacle->init(profile, nullptr), 0);
    for (const Code& ours : {Code(make("cuda", profile)), Code(tentacle)}) {
      const Pair pair{ours, stock, false, shards};
      for (unsigned i = 0; i < 200 && !HasFailure(); ++i)
        Comparison(pair, draw, i % 10 == 0 ? 4096 * k : draw.length(20'000)).run();
    }
  }
}

TEST(RoleIsa, NamesItsLimits) {
  const auto why = [](const std::string& technique, unsigned k, unsigned m) {
    return make("isa", profile_of(technique, k, m)).why;
  };
  EXPECT_EQ(why("reed_sol_van", 33, 2), "k=33 must be at most 32 with technique=reed_sol_van");
  EXPECT_EQ(why("reed_sol_van", 8, 5), "m=5 must be at most 4 with technique=reed_sol_van");
  EXPECT_EQ(why("reed_sol_van", 22, 4), "k=22 must be at most 21 with technique=reed_sol_van and m=4");
  EXPECT_EQ(why("cauchy", 1, 2), "k=1 must be at least 2");
  EXPECT_EQ(why("cauchy", 2, 0), "m=0 must be at least 1");
  EXPECT_EQ(why("liberation", 4, 2), "technique=liberation must be one of reed_sol_van, cauchy");
  EXPECT_EQ(make("isa", {{"k", "4x"}}).why, "k=4x must be a whole number");
}

// The stock plugin takes it, and its coding chunks are written over data.
TEST(RoleIsa, RefusesAMappingThatMovesAChunk) {
  Profile profile = profile_of("reed_sol_van", 2, 1);
  profile["mapping"] = "_DD";
  const Made ours = make("isa", profile);
  EXPECT_EQ(ours.error, -EINVAL);
  EXPECT_NE(ours.why.find("mapping=_DD: "), ours.why.npos) << ours.why;
  EXPECT_EQ(make("stockisa", profile).error, 0);
}

}  // namespace
}  // namespace ec::test
