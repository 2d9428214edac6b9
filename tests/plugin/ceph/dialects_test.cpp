// What libec_cuda.so answers to hosts of different releases. This program says that it is of EC_TEST_RELEASE;
// a plugin stays loaded, so each host is a process of its own.
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "ceph/tentacle.h"
#include "plugin/ceph/host.hpp"
#include "tests/common/child.hpp"
#include "tests/host/plugin_host.hpp"

// In place of the one in Ceph's library, for the host and for the plugin.
__attribute__((visibility("default"))) const char* ceph_version_to_str() {
  const char* release = std::getenv("EC_TEST_RELEASE");
  return release != nullptr ? release : "16.2.15";
}

// What a daemon of Ceph 20 exports names its types. Here those of a release that never was.
#ifdef EC_OTHER_TYPES
extern "C" __attribute__((visibility("default"))) void with_our_types() asm(
    "_Z1fR10bitset_setILm256E10shard_id_tE");
#else
extern "C" __attribute__((visibility("default"))) void with_our_types() asm(
    "_Z1fR10bitset_setILm128E10shard_id_tE");
#endif
void with_our_types() {}

namespace ec::test {
namespace {

using ceph::Dialect;

/// The plugin in a host of that release: `use` in a child process that has loaded it and had it make an
/// object. Returns the answer.
template <class Use>
int in_host(const char* release, Use use, const std::string& sentence = "") {
  return -in_child([&] {
    setenv("EC_TEST_RELEASE", release, 1);
    std::ostringstream why;
    ::ceph::ErasureCodeProfile profile{{"k", "4"}, {"m", "2"}, {"mapping", "_DDDD_"}};
    testing::internal::CaptureStderr();
    const auto made = host::PluginHost::instance().make("cuda", EC_PLUGIN_DIR, profile, &why);
    const std::string said = why.str() + testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(sentence), said.npos) << said;
    if (made) use(made.code);
    return testing::Test::HasFailure() ? 255 : -made.error;
  });
}

const auto not_at_all = [](const ::ceph::ErasureCodeInterfaceRef&) {};

TEST(Dialects, GoByTheRelease) {
  for (const char* version : {"16.2.15", "17.2.9", "18.2.7", "19.2.3-1"})
    EXPECT_EQ(ceph::dialect_of(version), Dialect::classic) << version;
  for (const char* version : {"20.2.4", "20.1.0-rc"})
    EXPECT_EQ(ceph::dialect_of(version), Dialect::tentacle) << version;
  for (const char* version : {"15.2.17", "21.1.0", "22.2.0", "20", "", "tentacle", "main-123", "-16.2",
                              "200.1.1", "2.0", "20.3.0-1234-gabc", "19.0.0-7-gabc", "20.21.0"})
    EXPECT_EQ(ceph::dialect_of(version), Dialect::none) << version;
  EXPECT_EQ(ceph::dialect_of(nullptr), Dialect::none);
}

TEST(Dialects, GoByTheNamesOfTypes) {
  for (const char* ours : {"", "main", "_Z1fRK10bitset_setILm128E10shard_id_tE",
                           "_Z1f13mini_flat_mapI10shard_id_tN4ceph6buffer7v15_2_04listEaE",
                           "_Z1f13mini_flat_mapI10shard_id_tN4ceph6buffer7v15_2_03ptrEaERS6_",
                           // In ceph-osd; a name that came before is written as a number.
                           "_Z1fR13mini_flat_mapI10shard_id_tiaERK10bitset_setILm128ES1_E",
                           "_Z1f10bitset_setILm256E9another_tE", "_Z1f10bitset_setILm"})
    EXPECT_TRUE(ceph::names_our_types(ours)) << ours;
  for (const char* other : {"_Z1fRK10bitset_setILm64E10shard_id_tE",
                            "_Z1f10bitset_setILm128E10shard_id_tE10bitset_setILm256E10shard_id_tE",
                            "_Z1f13mini_flat_mapI10shard_id_tN4ceph6buffer7v15_2_03ptrEiE"})
    EXPECT_FALSE(ceph::names_our_types(other)) << other;
}

#ifndef EC_OTHER_TYPES
TEST(Dialects, OfRelease20IsTentacle) {
  EXPECT_EQ(in_host(
                "20.2.4",
                [](const ::ceph::ErasureCodeInterfaceRef& made) {
                  const auto code =
                      std::reinterpret_pointer_cast<::ceph::tentacle::ErasureCodeInterface>(made);
                  EXPECT_EQ(code->get_supported_optimizations(), 0x57u);
                },
                "for Ceph 20.2.4, tentacle interface"),
            0);
}

TEST(Dialects, OfRelease19IsClassic) {
  EXPECT_EQ(in_host(
                "19.2.1",
                [](const ::ceph::ErasureCodeInterfaceRef& made) {
                  EXPECT_EQ(made->get_chunk_mapping(), (std::vector<int>{1, 2, 3, 4, 0, 5}));
                },
                "for Ceph 19.2.1, classic interface"),
            0);
}

#else
TEST(DialectsOfOtherTypes, AreNotSpoken) {
  // Debian's plugins are of another release.
  EXPECT_EQ(in_host("20.2.9", not_at_all,
                    "sets and maps of shards of this Ceph 20.2.9 are not those of 20.2: it hands over"),
            -ENOENT);
  EXPECT_EQ(in_host("18.2.7", not_at_all), 0) << "the classic interface has no such types";
}
#endif

}  // namespace
}  // namespace ec::test
