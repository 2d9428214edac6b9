// Which profiles Ceph's own plugins can take over; that they code the same bytes then: pass_through_test.cpp.
#include "plugin/ceph/portable.hpp"

#include <gtest/gtest.h>

namespace ec::test {
namespace {

using ceph::portability;
using Profile = std::map<std::string, std::string>;

TEST(Portable, AreTheShapesThatCephsOwnPluginsCodeInEachRelease) {
  const struct {
    Profile profile;
    const char *plugin, *technique;
  } rows[] = {
      {{}, "isa", "reed_sol_van"},
      {{{"k", "32"}, {"m", "3"}}, "isa", "reed_sol_van"},
      {{{"k", "21"}, {"m", "4"}}, "isa", "reed_sol_van"},
      {{{"technique", "cauchy"}, {"k", "223"}, {"m", "32"}}, "isa", "cauchy"},
      {{{"technique", "jerasure_reed_sol_van"}, {"k", "40"}, {"m", "9"}}, "jerasure", "reed_sol_van"},
      {{{"technique", "jerasure_reed_sol_r6_op"}, {"k", "9"}, {"m", "2"}}, "jerasure", "reed_sol_r6_op"},
      {{{"k", "2"},
        {"m", "1"},
        {"mapping", "DD_"},
        {"backend", "gpu"},
        {"stripe_unit", "64K"},
        {"crush-root", "x"}},
       "isa",
       "reed_sol_van"},
  };
  for (const auto& row : rows) {
    const auto found = portability(row.profile);
    EXPECT_EQ(found.plugin, row.plugin) << found.why_not;
    EXPECT_EQ(found.technique, row.technique);
    EXPECT_TRUE(found && ceph::is_portable(row.profile) && found.why_not.empty());
  }
}

TEST(Portable, AreNoOthers) {
  const struct {
    Profile profile;
    const char* why_not;
  } rows[] = {
      {{{"k", "33"}, {"m", "3"}}, "k=33 must be at most 32 with technique=reed_sol_van"},
      {{{"k", "3"}, {"m", "5"}}, "m=5 must be at most 4 with technique=reed_sol_van"},
      {{{"technique", "cauchy"}, {"k", "4"}, {"m", "33"}}, "m=33 must be at most 32"},
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
    EXPECT_FALSE(found || ceph::is_portable(row.profile));
  }
}

}  // namespace
}  // namespace ec::test
