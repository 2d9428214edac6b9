// Profiles: the keys that a rule is made of, by what a monitor and an OSD of each release say of them; and
// which profiles Ceph's own plugins cannot take over (those that they can: pass_through_test.cpp). The
// sentences on all other keys: tests/project/bad_input.json.
#include <gtest/gtest.h>

#include <cerrno>

#include "plugin/ceph/host.hpp"
#include "plugin/ceph/portable.hpp"
#include "plugin/ceph/profile.hpp"
#include "plugin/codec/settings/settings.hpp"

/// As a daemon of Ceph 18 exports it.
class [[gnu::visibility("default")]] CrushWrapper {
 public:
  int add_simple_rule(std::string, std::string, std::string, std::string, std::string, int, std::ostream*);
};
int CrushWrapper::add_simple_rule(std::string, std::string, std::string, std::string, std::string, int,
                                  std::ostream*) {
  return 7;
}

namespace ec::test {
namespace {

using ceph::portability;
using ceph::Role;
using Profile = ::ceph::ErasureCodeProfile;

struct Wrong {
  const char *key, *value, *sentence;
  int release = 20;
};
constexpr const char *domains = "crush-num-failure-domains", *osds = "crush-osds-per-failure-domain",
                     *unknown = "unknown key";
/// Numbers that are none, and `w`, are in bad_input.json.
constexpr Wrong wrong[] = {
    {"crush-failure_domain", "osd", unknown},
    {"crush-failure-domains", "osd", unknown},
    {"crush-Root", "default", unknown},
    {"crush-", "", unknown},
    {"crush-num-failure-domain", "3", unknown},
    {"crush-osds-per-failure-domains", "2", unknown},
    {domains, "256", "crush-num-failure-domains=256 must be a whole number up to 255"},
    {osds, "2", "crush-osds-per-failure-domain=2 needs crush-num-failure-domains of at least 1"},
    {domains, "5", "crush-num-failure-domains=5: the rule is of 5 shards, and must be of at least k+m=6"},
    {domains, "3", "Ceph makes such rules from 19 on, and this host is of 18", 18},
};

TEST(RuleKeys, ThatAreWrongAreRefused) {
  for (const Wrong& row : wrong) {
    Profile profile{{"k", "4"}, {"m", "2"}, {row.key, row.value}};
    try {
      parse_profile(Role::own, profile, row.release);
      ADD_FAILURE() << row.key << "=" << row.value << " is taken";
    } catch (const codec::SetupError& e) {
      EXPECT_EQ(e.code(), EINVAL);
      EXPECT_NE(std::string_view(e.what()).find(row.sentence), std::string_view::npos) << e.what();
    }
  }
}

TEST(RuleKeys, ThatAreRightAreTaken) {
  struct Right {
    Profile keys;
    int release, domains, osds;
  };
  const Right right[] = {
      {{}, 16, 0, 0},
      {{{"crush-root", "ssds"}, {"crush-failure-domain", "rack"}, {"crush-device-class", "ssd"}}, 16, 0, 0},
      {{{"crush-root", ""}, {"crush-device-class", ""}}, 18, 0, 0},
      {{{domains, ""}, {osds, ""}}, 18, 0, 0},
      {{{domains, "0"}, {osds, "0"}}, 17, 0, 0},
      {{{domains, "3"}, {osds, "2"}}, 19, 3, 2},
      {{{domains, "6"}}, 20, 6, 0},
      {{{domains, "6"}, {osds, "1"}}, 20, 6, 1},
      {{{osds, "1"}}, 20, 0, 1},
      {{{domains, "5"}, {osds, "4"}, {"crush-failure-domain", "host"}}, 20, 5, 4},
  };
  for (const Right& row : right) {
    Profile profile{{"k", "4"}, {"m", "2"}};
    profile.insert(row.keys.begin(), row.keys.end());
    const auto parsed = parse_profile(Role::own, profile, row.release);
    EXPECT_EQ(parsed.crush_failure_domains, row.domains);
    EXPECT_EQ(parsed.crush_osds_per_failure_domain, row.osds);
    EXPECT_EQ(parsed.crush_root, profile["crush-root"]);
  }
}

/// Pools were made with such keys. Their OSDs make no rule.
TEST(RuleKeys, OfAPoolThatIsThereStopNoOsd) {
  for (const Wrong& row : wrong) {
    Profile profile{{"k", "4"}, {"m", "2"}, {row.key, row.value}};
    EXPECT_NO_THROW(parse_profile(Role::own, profile, row.release, true)) << row.key;
  }
  Profile profile{{"k", "4"}, {"m", "2"}, {"speed", "high"}};
  EXPECT_THROW(parse_profile(Role::own, profile, 20, true), codec::SetupError);
}

TEST(Rule, OfDomainsIsMadeByNoFunctionThatDoesNotCountThem) {
  CrushWrapper crush;
  ceph::PoolProfile profile;
  EXPECT_EQ(add_crush_rule("rule", crush, profile, nullptr), 7);
  profile.crush_failure_domains = 3;
  EXPECT_EQ(add_crush_rule("rule", crush, profile, nullptr), -ENOTSUP);
}

TEST(Portable, AreNoOthers) {
  const struct {
    Profile profile;
    const char* why_not;
  } rows[] = {
      {{{"k", "33"}, {"m", "3"}}, "k=33 must be at most 32 with technique=reed_sol_van"},
      {{{"k", "3"}, {"m", "5"}}, "m=5 must be at most 4 with technique=reed_sol_van"},
      {{{"technique", "cauchy"}, {"k", "4"}, {"m", "33"}}, "m=33 must be at most 32"},
      {{{"technique", "cauchy"}, {"k", "96"}, {"m", "32"}}, "k=96 and m=32: k+m must be at most 127"},
      {{{"technique", "jerasure_reed_sol_van"}, {"k", "120"}, {"m", "8"}},
       "k=120 and m=8: k+m must be at most 127"},
      {{{"k", "2"}, {"m", "1"}, {"mapping", "D_D"}}, "mapping=D_D must be none, or one that moves no chunk"},
      {{{"k", "x"}}, "k=x must be a whole number"},
      {{{"k", "1"}}, "k=1 must be at least 2"},
      {{{"technique", "liberation"}},
       "technique=liberation must be one of reed_sol_van, cauchy, jerasure_reed_sol_van, "
       "jerasure_reed_sol_r6_op"},
  };
  for (const auto& row : rows) {
    const auto found = portability(row.profile);
    EXPECT_EQ(found.why_not, row.why_not);
    EXPECT_FALSE(found);
  }
}

}  // namespace
}  // namespace ec::test
