// Ceph's own lrc over our plugin, in one process: it asks the host for the plugins of its layers by name.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/plugin/ceph/roles.hpp"
#include "tests/plugin/ceph/shards.hpp"

namespace ec::test {
namespace {

/// Layers as lrc takes them, each coded by the plugin of that name.
struct Layers {
  std::string mapping;
  std::vector<std::string> layers;
};
Profile profile_of(const Layers& code, const std::string& plugin, const std::string& technique) {
  std::string text;
  for (const auto& layer : code.layers)
    text += fmt::format("{}[ \"{}\", \"plugin={} technique={}\" ]", text.empty() ? "" : ", ", layer, plugin,
                        technique);
  return {{"plugin", "lrc"}, {"mapping", code.mapping}, {"layers", "[ " + text + " ]"}};
}

/// What the k,m,l form makes of k=4 m=2 l=3: all chunks, and a local sum of each three.
const Layers kml_4_2_3{"DD__DD__", {"DDc_DDc_", "DDDc____", "____DDDc"}};
const Layers shapes[] = {kml_4_2_3,
                         {"__DD__DD", {"_cDD_cDD", "cDDD____", "____cDDD"}},
                         {"DDDD__DDDD__", {"DDDDc_DDDDc_", "DDDDDc______", "______DDDDDc"}},
                         {"DD_", {"DDc"}}};

Code made(const Profile& profile) { return Code(make("lrc", profile)); }

/// Reads every set of 1 to 3 lost chunks that `stock` can read, as an OSD does; returns how many.
unsigned compare(const Code& ours, const Code& stock, Draw& draw) {
  const unsigned n = stock.n();
  EXPECT_EQ(ours.n(), n);
  const auto in = draw.bytes(stock.k() * 4096, 3);
  const Chunks all = stock.encode(in);
  EXPECT_EQ(difference(ours.encode(in), all, first_chunks(n)), "");
  if (auto* tentacle = ours.tentacle()) {
    ShardIdSet want;
    fill(want, first_chunks(n));
    ListMap lists(n);
    EXPECT_EQ(tentacle->encode(want, in, &lists), 0);
    Chunks made;
    for (int c : first_chunks(n)) made[c] = at(lists, c);
    EXPECT_EQ(difference(made, all, first_chunks(n)), "");
  }
  unsigned read = 0;
  for (unsigned bits = 1; bits < 1u << n && !testing::Test::HasFailure(); ++bits) {
    std::set<int> lost, there;
    for (unsigned c = 0; c < n; ++c) ((bits >> c & 1) != 0 ? lost : there).insert(static_cast<int>(c));
    if (lost.size() > 3) continue;
    SCOPED_TRACE(fmt::format("lost {}", lost));
    const auto reads = stock.reads(lost, there);
    EXPECT_EQ(ours.reads(lost, there), reads);
    if (reads.first != 0) continue;
    Chunks survivors;
    for (int c : reads.second) survivors[c] = all.at(c);
    Chunks decoded;
    EXPECT_EQ(ours.with([&](auto& code) { return code.decode(lost, survivors, &decoded, 4096); }), 0);
    EXPECT_EQ(difference(decoded, all, lost), "");
    ++read;
  }
  return read;
}

TEST(Layers, OverOursAreThoseOverCephsOwn) {
  Draw draw(1);
  unsigned read = 0;
  for (const Layers& shape : shapes) {
    SCOPED_TRACE(shape.mapping);
    const Code isa = made(profile_of(shape, "stockisa", "reed_sol_van"));
    read += compare(made(profile_of(shape, "cuda", "reed_sol_van")), isa, draw);
    read += compare(made(profile_of(shape, "isa", "reed_sol_van")), isa, draw);
    const Code jerasure = made(profile_of(shape, "stockjerasure", "reed_sol_van"));
    read += compare(made(profile_of(shape, "jerasure", "reed_sol_van")), jerasure, draw);
    read += compare(made(profile_of(shape, "cuda", "jerasure_reed_sol_van")), jerasure, draw);
    if (HasFailure()) return;
  }
  fmt::print("{} losses read\n", read);
  EXPECT_GT(read, 500u);
}

// It puts jerasure inside by itself, from Ceph 20 on isa; in this process both are ours.
TEST(Layers, OfTheShortFormAreCodedByOurs) {
  Draw draw(2);
  const char* inside = host_release() >= 20 ? "stockisa" : "stockjerasure";
  const Code ours = made({{"plugin", "lrc"}, {"k", "4"}, {"m", "2"}, {"l", "3"}});
  EXPECT_GT(compare(ours, made(profile_of(kml_4_2_3, inside, "reed_sol_van")), draw), 30u);
}

}  // namespace
}  // namespace ec::test
