// Our plugin loaded as isa and as jerasure against Ceph's own plugins of those names: the same profiles
// taken, refused and completed, the same sizes, answers and bytes. Runs in hosts of every release
// (tools/ceph-release). EC_TEST_SEED repeats a run; every failure names its draw.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/plugin/ceph/roles.hpp"
#include "tests/plugin/ceph/shards.hpp"

namespace ec::test {
namespace {

using ::ceph::tentacle::BufferMap;
using ::ceph::tentacle::ShardIdSet;

/// Ours in a role, and the plugin whose it is.
struct Pair {
  Pair(Made ours_, Made stock_) : ours(std::move(ours_.code)), stock(std::move(stock_.code)) {}
  Code ours, stock;
};

Pair pair_of(const std::string& role, const Profile& profile) {
  Made ours = make(role, profile), stock = make("stock" + role, profile);
  if (ours.error != 0 || stock.error != 0)
    throw std::runtime_error(fmt::format("{}: ours {} ({}), stock {} ({})", profile, ours.error, ours.why,
                                         stock.error, stock.why));
  return {std::move(ours), std::move(stock)};
}

Profile profile_of(const std::string& technique, unsigned k, unsigned m) {
  return {{"technique", technique}, {"k", std::to_string(k)}, {"m", std::to_string(m)}};
}

// --- Random profiles.

const std::string& one_of(Draw& draw, const std::vector<std::string>& texts) {
  return texts[draw.number(0, texts.size() - 1)];
}
bool one_in(Draw& draw, unsigned n) { return draw.number(1, n) == 1; }

/// Numbers, most of them good ones.
std::string number_text(Draw& draw, unsigned highest) {
  if (one_in(draw, 12))
    return one_of(draw, {"", " 4", "+3", "-2", "4 ", "4a", "0", "1", "0x4", "99999999999"});
  return std::to_string(draw.number(2, highest));
}

/// What every plugin may be given besides.
void add_others(Draw& draw, Profile& profile) {
  if (one_in(draw, 6)) profile["crush-root"] = one_of(draw, {"", "default", "ssd"});
  if (one_in(draw, 6)) profile["crush-failure-domain"] = one_of(draw, {"", "osd", "rack"});
  if (one_in(draw, 6)) profile["crush-device-class"] = one_of(draw, {"", "hdd"});
  if (one_in(draw, 20)) profile["crush-num-failure-domains"] = one_of(draw, {"", "0", "3", "x"});
  if (one_in(draw, 20)) profile["crush-osds-per-failure-domain"] = one_of(draw, {"", "0", "2", "y"});
  if (one_in(draw, 8)) profile["stripe_unit"] = one_of(draw, {"4096", "4K", "nonsense"});
  if (one_in(draw, 8)) profile["backend"] = one_of(draw, {"gpu", "nonsense"});
  if (one_in(draw, 8)) profile["directory"] = "/nowhere";
  if (one_in(draw, 8)) profile["ruleset-root"] = "x";
  if (one_in(draw, 16)) profile[one_of(draw, {"K", "scalar_mds", "l", "d"})] = "8";
}

/// One that moves no chunk, for all others have these plugins lose data.
void add_mapping(Draw& draw, Profile& profile) {
  const auto digits = [&](const char* key) {
    return profile.contains(key) ? static_cast<unsigned>(std::strtoul(profile[key].c_str(), nullptr, 10)) : 3;
  };
  const unsigned k = std::min(digits("k"), 40u), m = std::min(digits("m"), 40u);
  if (one_in(draw, 10))
    profile["mapping"] = std::string(k, 'D') + std::string(m + (one_in(draw, 4) ? 1 : 0), '_');
}

Profile isa_profile(Draw& draw) {
  Profile profile{{"plugin", "isa"}};
  const bool is_cauchy = one_in(draw, 2);
  if (!one_in(draw, 8))
    profile["technique"] = one_in(draw, 20) ? one_of(draw, {"", "Cauchy", "reed_sol_r6_op"})
                           : is_cauchy      ? "cauchy"
                                            : "reed_sol_van";
  if (!one_in(draw, 10)) profile["k"] = number_text(draw, one_in(draw, 4) ? 40 : 12);
  if (!one_in(draw, 10)) profile["m"] = number_text(draw, one_in(draw, 8) ? 40 : is_cauchy ? 8 : 5);
  if (one_in(draw, 4)) profile["w"] = one_of(draw, {"8", "7", "x"});
  add_others(draw, profile);
  add_mapping(draw, profile);
  return profile;
}

/// Of the techniques that the stock plugin codes in any case, and only such as do not have it spoil memory.
Profile bitmatrix_profile(Draw& draw) {
  const std::string technique = one_of(draw, {"liberation", "blaum_roth", "liber8tion"});
  Profile profile{{"technique", technique}, {"k", std::to_string(draw.number(2, 5))}, {"packetsize", "64"}};
  if (technique == "blaum_roth") profile["w"] = "6";
  add_others(draw, profile);
  return profile;
}

Profile jerasure_profile(Draw& draw) {
  if (one_in(draw, 10)) return bitmatrix_profile(draw);
  Profile profile{{"plugin", "jerasure"}};
  const std::string technique = one_in(draw, 8)   ? one_of(draw, {"cauchy_orig", "cauchy_good"})
                                : one_in(draw, 4) ? "reed_sol_r6_op"
                                                  : "reed_sol_van";
  const bool is_ours = technique.starts_with("reed");
  if (!one_in(draw, 20))
    profile["technique"] = one_in(draw, 20) ? one_of(draw, {"", "cauchy", "x"}) : technique;
  if (!one_in(draw, 10)) profile["k"] = number_text(draw, !is_ours ? 7 : one_in(draw, 4) ? 40 : 12);
  if (technique == "reed_sol_van" || technique.starts_with("cauchy")) {
    if (!one_in(draw, 10)) profile["m"] = number_text(draw, one_in(draw, 8) && is_ours ? 30 : 6);
  } else if (one_in(draw, 2)) {
    profile["m"] = one_in(draw, 8) ? number_text(draw, 3) : "2";
  }
  if (is_ours && one_in(draw, 3))
    profile["w"] = one_of(draw, {"8", "8", "8", "", " 8", "16", "32", "7", "x"});
  if (one_in(draw, 4)) profile["packetsize"] = is_ours ? one_of(draw, {"2048", "x", ""}) : "64";
  if (one_in(draw, 3))
    profile["jerasure-per-chunk-alignment"] = one_of(draw, {"true", "yes", "false", "no", "1", ""});
  add_others(draw, profile);
  add_mapping(draw, profile);
  return profile;
}

/// Chunks of 64 KiB and less are asked for only where the stock plugin does not end the process: it does
/// where a chunk is shorter than what it rounds to with jerasure-per-chunk-alignment.
unsigned object_bytes(Draw& draw, const Profile& profile, unsigned k) {
  const auto at = profile.find("jerasure-per-chunk-alignment");
  const bool per_chunk = at != profile.end() && (at->second == "true" || at->second == "yes");
  const unsigned least = per_chunk ? k * (64 << 10) : 1;
  return least + static_cast<unsigned>(draw.length(1 << 20));
}

void expect_same_reads(const Pair& pair, Draw& draw) {
  const auto all = first_chunks(pair.stock.n());
  const auto want = draw.subset(all, static_cast<unsigned>(draw.number(1, all.size())));
  const auto there = draw.subset(all, static_cast<unsigned>(draw.number(0, all.size())));
  std::map<int, int> costs;
  for (int shard : there) costs[shard] = static_cast<int>(draw.number(0, 9));
  SCOPED_TRACE(fmt::format("want {} of {}", want, there));
  EXPECT_EQ(pair.ours.reads(want, there), pair.stock.reads(want, there));
  EXPECT_EQ(pair.ours.cheapest_reads(want, costs), pair.stock.cheapest_reads(want, costs));
}

/// Ceph's isa copies a kept table as if it were of this m, beyond its end; what it copies too much is not
/// used.
#ifdef __SANITIZE_ADDRESS__
constexpr bool has_stock_decode = false;
#else
constexpr bool has_stock_decode = true;
#endif

/// Ceph 20's isa ends the process where it adds up more than 32 data chunks (ErasureCodeIsa::isa_xor).
bool has_stock_encode(const std::string& role, const Code& stock) {
  return host_release() < 20 || role != "isa" || stock.k() <= 32 || stock.n() - stock.k() > 1;
}

/// Encodes with both, has each decode what chunks are lost, and returns what was compared.
Chunks expect_same_bytes(const Pair& pair, Draw& draw, unsigned bytes) {
  const auto in = draw.bytes(bytes, static_cast<unsigned>(draw.number(1, 9)));
  const unsigned n = pair.stock.n(), k = pair.stock.k();
  const Chunks ours = pair.ours.encode(in), stock = pair.stock.encode(in);
  EXPECT_EQ(difference(ours, stock, first_chunks(n)), "") << bytes << " bytes";
  const auto lost = draw.subset(first_chunks(n), static_cast<unsigned>(draw.number(1, n - k)));
  EXPECT_EQ(difference(pair.ours.decode(stock, lost), stock, lost), "") << fmt::format("lost {}", lost);
  if (has_stock_decode) {
    EXPECT_EQ(difference(pair.stock.decode(ours, lost), ours, lost), "") << fmt::format("lost {}", lost);
  }
  return stock;
}

/// Whether it was taken.
bool compare_profile(const std::string& role, const Profile& profile, Draw& draw, bool with_bytes) {
  SCOPED_TRACE(fmt::format("{}", profile));
  Made ours = make(role, profile), stock = make("stock" + role, profile);
  EXPECT_EQ(ours.error, stock.error) << "ours: " << ours.why << " stock: " << stock.why;
  EXPECT_EQ(ours.why.empty(), stock.why.empty());
  if (ours.error != 0 || stock.error != 0) return false;
  EXPECT_EQ(ours.profile, stock.profile);
  EXPECT_EQ(is_by_ours(ours), role == "isa" || (stock.profile["technique"].starts_with("reed_sol_") &&
                                                std::stoi(stock.profile["w"]) == 8));
  const Pair pair(std::move(ours), std::move(stock));
  EXPECT_EQ(pair.ours.n(), pair.stock.n());
  EXPECT_EQ(pair.ours.k(), pair.stock.k());
  EXPECT_EQ(pair.ours.optimizations(), pair.stock.optimizations());
  const auto same_mapping = pair.ours.mapping() == pair.stock.mapping();
  EXPECT_TRUE(same_mapping || pair.stock.mapping().size() != pair.stock.n());
  for (unsigned i = 0; i < 40; ++i) {
    const unsigned bytes = object_bytes(draw, profile, pair.stock.k());
    EXPECT_EQ(pair.ours.chunk_size(bytes), pair.stock.chunk_size(bytes)) << bytes;
  }
  for (unsigned i = 0; i < 3; ++i) expect_same_reads(pair, draw);
  if (with_bytes && has_stock_encode(role, pair.stock) && !testing::Test::HasFailure())
    expect_same_bytes(pair, draw, object_bytes(draw, profile, pair.stock.k()));
  return true;
}

void compare_profiles(const std::string& role, Profile (*random_profile)(Draw&)) {
  constexpr unsigned draws = 6000;
  unsigned taken = 0;
  for (unsigned i = 0; i < draws; ++i) {
    const std::uint64_t seed = base_seed() + i;
    SCOPED_TRACE(fmt::format("draw {} (EC_TEST_SEED={} makes it the first)", i, seed));
    Draw draw(seed);
    const Profile profile = random_profile(draw);
    taken += compare_profile(role, profile, draw, i % 8 == 0) ? 1 : 0;
    if (testing::Test::HasFailure()) return;
  }
  fmt::print("{} profiles, {} taken\n", draws, taken);
  EXPECT_GT(taken, draws / 4);
  EXPECT_LT(taken, draws - draws / 20) << "too few are refused to say anything";
}

TEST(RoleIsa, TakesCompletesAndRefusesTheSameProfiles) { compare_profiles("isa", isa_profile); }
TEST(RoleJerasure, TakesCompletesAndRefusesTheSameProfiles) {
  compare_profiles("jerasure", jerasure_profile);
}

// --- Bytes.

struct Family {
  std::string role, technique;
  unsigned least_m, most_m;  ///< that it takes; 10: more than is tried
};
const Family families[] = {{"isa", "reed_sol_van", 1, 4},
                           {"isa", "cauchy", 1, 10},
                           {"jerasure", "reed_sol_van", 1, 10},
                           {"jerasure", "reed_sol_r6_op", 2, 2}};

TEST(Roles, SameBytesInEveryShape) {
  Draw draw(base_seed());
  unsigned compared = 0;
  const auto compare = [&](const Pair& pair, unsigned bytes) {
    expect_same_bytes(pair, draw, bytes);
    ++compared;
  };
  for (const Family& family : families)
    for (unsigned k = 2; k <= 20; ++k)
      for (unsigned m = family.least_m; m <= std::min(family.most_m, 6u); ++m) {
        SCOPED_TRACE(fmt::format("{} {} {}+{}", family.role, family.technique, k, m));
        const Pair pair = pair_of(family.role, profile_of(family.technique, k, m));
        for (const unsigned bytes : {k * 4096, 1 + static_cast<unsigned>(draw.length(200'000)),
                                     1 + static_cast<unsigned>(draw.length(5000))})
          compare(pair, bytes);
        if (HasFailure()) return;
      }
  for (const unsigned k : {2u, 4u, 7u, 8u, 12u}) {
    Profile per_chunk = profile_of("reed_sol_van", k, 3);
    per_chunk["jerasure-per-chunk-alignment"] = "true";
    const Pair pair = pair_of("jerasure", per_chunk);
    for (unsigned i = 0; i < 20; ++i) compare(pair, k * 128 + static_cast<unsigned>(draw.length(100'000)));
  }
  for (const auto& [k, m] : {std::pair(64u, 60u), {100u, 20u}, {120u, 3u}, {32u, 30u}})
    compare(pair_of("jerasure", profile_of("reed_sol_van", k, m)), 100'000);
  fmt::print("{} shapes and lengths\n", compared);
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

TEST(Roles, EveryLossOfCodesOfUpTo12Chunks) {
  Draw draw(base_seed());
  unsigned decoded = 0;
  for (const Family& family : families)
    for (unsigned n = 3; n <= 12; ++n)
      for (unsigned m = family.least_m; m <= std::min(family.most_m, n - 2); ++m) {
        SCOPED_TRACE(fmt::format("{} {} {}+{}", family.role, family.technique, n - m, m));
        const Pair pair = pair_of(family.role, profile_of(family.technique, n - m, m));
        const auto in = draw.bytes((n - m) * 96, 3);
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

/// What optimised pools of Ceph 20 ask for, on chunks of one stripe, with one data chunk changed.
class PartsOfAStripe {
 public:
  PartsOfAStripe(const Code& code, const Chunks& before, const Chunks& after, int changed)
      : code_(*code.tentacle()),
        n_(code.n()),
        k_(code.k()),
        before_(before),
        after_(after),
        changed_(changed) {}

  /// The coding chunks of `after`, from its data.
  std::string encoded() const {
    BufferMap data(n_), coding(n_);
    for (unsigned c = 0; c < n_; ++c)
      insert(c < k_ ? data : coding, static_cast<int>(c),
             buffer_of(flat(after_.at(c < k_ ? static_cast<int>(c) : 0))));
    EXPECT_EQ(code_.encode_chunks(data, coding), 0);
    return difference_of(coding, k_, n_);
  }
  /// The same, from the coding chunks of `before` and the change.
  std::string updated() const {
    BufferMap deltas(n_), coding(n_);
    const std::string old_data = flat(before_.at(changed_));
    ceph::bufferptr delta = buffer_of(old_data);
    code_.encode_delta(buffer_of(old_data), buffer_of(flat(after_.at(changed_))), &delta);
    insert(deltas, changed_, delta);
    for (unsigned c = k_; c < n_; ++c)
      insert(coding, static_cast<int>(c), buffer_of(flat(before_.at(static_cast<int>(c)))));
    code_.apply_delta(deltas, coding);
    return difference_of(coding, k_, n_);
  }
  /// Lost data chunks of `after`.
  std::string decoded(const std::set<int>& lost) const {
    BufferMap there(n_), made(n_);
    ShardIdSet wanted;
    fill(wanted, lost);
    for (unsigned c = 0; c < n_; ++c) {
      const bool is_lost = lost.contains(static_cast<int>(c));
      insert(is_lost ? made : there, static_cast<int>(c),
             buffer_of(flat(after_.at(is_lost ? 0 : static_cast<int>(c)))));
    }
    EXPECT_EQ(code_.decode_chunks(wanted, there, made), 0);
    return difference_of(made, 0, n_);
  }

 private:
  /// From `after`, in the chunks that are there; empty if there is none.
  std::string difference_of(const BufferMap& made, unsigned first, unsigned end) const {
    for (unsigned c = first; c < end; ++c)
      if (made.slots[c] && text(*made.slots[c]) != flat(after_.at(static_cast<int>(c))))
        return fmt::format("chunk {} differs", c);
    return "";
  }

  ::ceph::tentacle::ErasureCodeInterface& code_;
  unsigned n_, k_;
  const Chunks& before_;
  const Chunks& after_;
  int changed_;
};

TEST(Roles, SameBytesInOptimisedPools) {
  if (host_release() < 20) GTEST_SKIP() << "this host is of release " << host_release();
  Draw draw(base_seed());
  for (const Family& family : families)
    for (unsigned k = 2; k <= 10; ++k)
      for (unsigned m = family.least_m; m <= std::min(family.most_m, 4u); ++m) {
        SCOPED_TRACE(fmt::format("{} {} {}+{}", family.role, family.technique, k, m));
        const Pair pair = pair_of(family.role, profile_of(family.technique, k, m));
        const std::string old_object = flat(draw.bytes(k * 4096, 1));
        const auto changed = static_cast<int>(draw.number(0, k - 1));
        std::string object = old_object;
        object.replace(static_cast<std::size_t>(changed) * 4096, 4096, flat(draw.bytes(4096, 1)));
        const Chunks before = pair.stock.encode(draw.in_pieces(old_object, 1));
        const Chunks after = pair.stock.encode(draw.in_pieces(object, 1));
        const auto lost = draw.subset(first_chunks(k), static_cast<unsigned>(draw.number(1, std::min(k, m))));
        for (const Code* code : {&pair.ours, &pair.stock}) {
          const PartsOfAStripe parts(*code, before, after, changed);
          EXPECT_EQ(parts.encoded(), "");
          EXPECT_EQ(parts.updated(), "");
          EXPECT_EQ(parts.decoded(lost), "");
        }
        if (HasFailure()) return;
      }
}

// What the slow second opinion wrote, against both.
TEST(RoleJerasure, WritesTheCommittedVectors) {
  unsigned compared = 0;
  const auto committed = nlohmann::json::parse(std::ifstream(EC_VECTORS_FILE));
  for (const auto& vector : committed.at("vectors")) {
    const unsigned k = vector["k"], m = vector["m"], bytes = vector["chunk_bytes"];
    std::string technique = vector["technique"];
    if (!technique.starts_with("jerasure_") || bytes % 32 != 0) continue;
    if (host_release() >= 20 && k + m > 128) continue;
    technique.erase(0, technique.find('_') + 1);
    SCOPED_TRACE(fmt::format("{} {}+{} {}", technique, k, m, bytes));
    std::string object;
    for (unsigned c = 0; c < k; ++c)
      for (unsigned i = 0; i < bytes; ++i) object.push_back(static_cast<char>(31 * i + 17 * c + i / 251));
    ceph::bufferlist in;
    in.append(object);
    const Pair pair = pair_of("jerasure", profile_of(technique, k, m));
    for (const Code* code : {&pair.ours, &pair.stock}) {
      const Chunks chunks = code->encode(in);
      for (unsigned r = 0; r < m; ++r) {
        std::string hex;
        for (const char byte : flat(chunks.at(static_cast<int>(k + r))))
          hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
        ASSERT_EQ(hex, vector["coding"][r].get<std::string>()) << (code == &pair.ours ? "ours" : "stock");
      }
    }
    ++compared;
  }
  EXPECT_GT(compared, 10u);
}

// --- Names.

TEST(Roles, OwnTechniquesWriteTheBytesOfJerasure) {
  Draw draw(base_seed());
  for (const char* technique : {"reed_sol_van", "reed_sol_r6_op"}) {
    const Profile profile = profile_of(technique, 4, 2);
    Profile own = profile;
    own["technique"] = std::string("jerasure_") + technique;
    const Pair pair(make("cuda", own), make("stockjerasure", profile));
    for (const unsigned bytes : {1u, 4096u, 65'537u}) expect_same_bytes(pair, draw, bytes);
  }
}

// What an operator must never do: Ceph takes such a change of a profile.
TEST(Roles, OwnReedSolVanIsNotThatOfJerasure) {
  Draw draw(base_seed());
  const Profile profile = profile_of("reed_sol_van", 4, 2);
  const auto in = draw.bytes(40'000, 1);
  const Chunks ours = Code(make("cuda", profile).code).encode(in);
  const Chunks theirs = Code(make("jerasure", profile).code).encode(in);
  EXPECT_EQ(difference(ours, theirs, first_chunks(5)), "") << "data and the sum";
  EXPECT_NE(difference(ours, theirs, {5}), "");
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
