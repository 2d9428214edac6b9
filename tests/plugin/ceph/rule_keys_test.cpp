// Keys of a profile that a rule is made of, by what a monitor and an OSD of each release say of them.
#include <gtest/gtest.h>

#include <cerrno>

#include "plugin/ceph/role.hpp"
#include "plugin/codec/settings/setup_error.hpp"

namespace ec::test {
namespace {

using ceph::Role;
using Profile = ::ceph::ErasureCodeProfile;

struct Wrong {
  const char *key, *value, *sentence;
  int release = 20;
};
constexpr const char *domains = "crush-num-failure-domains", *osds = "crush-osds-per-failure-domain",
                     *unknown = "unknown key";
constexpr Wrong wrong[] = {
    {"crush-failure_domain", "osd", unknown},
    {"crush-failuredomain", "osd", unknown},
    {"crush_failure-domain", "osd", unknown},
    {"crush-failure-domains", "osd", unknown},
    {"crush-device-clas", "ssd", unknown},
    {"crush-device_class", "ssd", unknown},
    {"crush-class", "ssd", unknown},
    {"crush-Root", "default", unknown},
    {"crush-roots", "default", unknown},
    {"crush-", "", unknown},
    {"crush-num-failure-domain", "3", unknown},
    {"crush-number-failure-domains", "3", unknown},
    {"crush-osds-per-failure-domains", "2", unknown},
    {"crush-osd-per-failure-domain", "2", unknown},
    {domains, "x", "crush-num-failure-domains=x must be a whole number up to 255"},
    {domains, "-1", "crush-num-failure-domains=-1 must be a whole number up to 255"},
    {osds, "+2", "crush-osds-per-failure-domain=+2 must be a whole number up to 255"},
    {osds, "2", "crush-osds-per-failure-domain=2 needs crush-num-failure-domains of at least 1"},
    {domains, "3", "Ceph makes such rules from 19 on, and this host is of 18", 18},
    {"w", "8", "w is 8 with every technique, and no key"},
};
static_assert(std::size(wrong) == 20);

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
  static_assert(std::size(right) == 10);
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
    if (!std::string_view(row.key).starts_with("crush-")) continue;
    Profile profile{{"k", "4"}, {"m", "2"}, {row.key, row.value}};
    EXPECT_NO_THROW(parse_profile(Role::own, profile, row.release, true)) << row.key;
  }
  Profile profile{{"k", "4"}, {"m", "2"}, {"speed", "high"}};
  EXPECT_THROW(parse_profile(Role::own, profile, 20, true), codec::SetupError);
}

}  // namespace
}  // namespace ec::test
