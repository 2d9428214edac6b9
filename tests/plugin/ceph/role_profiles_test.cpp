// Random profiles, as `isa` and as `jerasure`, beside Ceph's own plugins: taken, refused and completed alike,
// and what is taken codes alike.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/plugin/ceph/comparison.hpp"
#include "tests/plugin/ceph/roles.hpp"

namespace ec::test {
namespace {

const std::string& one_of(Draw& draw, const std::vector<std::string>& texts) {
  return texts[draw.number(0, texts.size() - 1)];
}
bool one_in(Draw& draw, unsigned n) { return draw.number(1, n) == 1; }

/// Numbers, most of them good ones.
std::string number_text(Draw& draw, unsigned highest) {
  if (one_in(draw, 12))
    return one_of(draw, {"", " 4", "+3", "-2", "4 ", "4a", "0", "1", "0x4", "99999999999", "-4294967292"});
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

/// Around the 127 chunks that Ceph 20's own plugins take at most.
void widen(Draw& draw, Profile& profile) {
  const auto m = draw.number(1, 32);
  profile["k"] = std::to_string(draw.number(126, 129) - m);
  profile["m"] = std::to_string(m);
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
  if (is_cauchy && one_in(draw, 10)) widen(draw, profile);
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
  if (technique == "reed_sol_van" && one_in(draw, 10)) widen(draw, profile);
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

/// Whether it was taken.
bool compare_profile(const std::string& role, const Profile& profile, Draw& draw, bool with_bytes) {
  SCOPED_TRACE(fmt::format("{}", profile));
  Made ours = make(role, profile), stock = make("stock" + role, profile);
  EXPECT_EQ(ours.error, stock.error) << "ours: " << ours.why << " stock: " << stock.why;
  EXPECT_EQ(ours.why.empty(), stock.why.empty());
  if (ours.error != 0 || stock.error != 0) return false;
  EXPECT_EQ(ours.profile, stock.profile);
  const bool is_by_ours = std::filesystem::canonical(file_of(ours.code)).filename() == "libec_cuda.so";
  EXPECT_EQ(is_by_ours, role == "isa" || (stock.profile["technique"].starts_with("reed_sol_") &&
                                          std::stoi(stock.profile["w"]) == 8));
  const Pair pair{Code(std::move(ours)), Code(std::move(stock))};
  for (unsigned i = 0; i < 40; ++i) {
    const unsigned bytes = object_bytes(draw, profile, pair.stock.k());
    EXPECT_EQ(pair.ours.sizes(bytes), pair.stock.sizes(bytes)) << bytes;
  }
  if (with_bytes && has_stock_encode(role, pair.stock) && !testing::Test::HasFailure())
    Comparison(pair, draw, object_bytes(draw, profile, pair.stock.k())).run(is_by_ours);
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
  EXPECT_GT(taken, draws / 4);
  EXPECT_LT(taken, draws - draws / 20) << "too few are refused to say anything";
}

TEST(RoleIsa, TakesCompletesAndRefusesTheSameProfiles) { compare_profiles("isa", isa_profile); }
TEST(RoleJerasure, TakesCompletesAndRefusesTheSameProfiles) {
  compare_profiles("jerasure", jerasure_profile);
}

}  // namespace
}  // namespace ec::test
