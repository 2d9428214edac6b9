// What ectool doctor says of processes by their stats: nothing where all is well, and where one thing is
// wrong that and nothing else. What it says of daemons by their files: daemons_test.py.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "tools/ectool/ectool_doctor.hpp"

namespace ec::test {
namespace {

using tools::Json;

/// Two OSDs that share a GPU by MPS.
Json two_osds() {
  Json processes = Json::array();
  for (const int pid : {101, 102}) {
    auto page = std::make_unique<codec::StatsPage>();
    page->version = {'1', '.', '0'};
    page->backends = {{{'c', 'u', 'd', 'a'}, {'x', '8', '6'}}};
    page->device.state = static_cast<std::uint64_t>(kernels::DeviceState::up);
    page->device.shared_by_mps = 1;
    page->arena.arena_bytes = std::uint64_t{1} << 30;
    Json process{{"pid", pid},
                 {"copy", 0},
                 {"uid", 0},
                 {"program", "ceph-osd"},
                 {"name", "osd." + std::to_string(pid)}};
    process.update(tools::stats_from(*page));
    processes.push_back(process);
  }
  return processes;
}

struct Illness {
  const char* check;
  const char* severity;
  const char* says;  ///< a part of the text
  std::function<void(Json& osd)> catch_it;
};

const Illness illnesses[] = {
    {"bytes", "error", "osd.101 (101): cuda made wrong bytes 2 time(s)",
     [](Json& osd) {
       osd["validation"] = {{{"backend", "cuda"}, {"mismatches", 2}}};
     }},
    {"version", "warning", "processes run 1 of version 0.9, 1 of version 1.0",
     [](Json& osd) { osd["version"] = "0.9"; }},
    {"mps", "warning",
     "2 processes use a GPU; not under MPS, so that each waits for all on its GPU: osd.101 (101)",
     [](Json& osd) { osd["device"]["shared_by_mps"] = 0; }},
    {"arena", "warning", "osd.101 (101): 7 buffers found no room in its arena of 1024 MiB",
     [](Json& osd) { osd["arena"]["refused"] = 7; }},
    {"device", "warning", "osd.101 (101): its GPU is latched off",
     [](Json& osd) { osd["device"]["state"] = "latched"; }},
    {"device", "warning", "its GPU did not come up",
     [](Json& osd) {
       osd["device"]["state"] = "none";
       osd["device"]["failed_starts"] = 3;
     }},
    {"device", "warning", "5 calls hung, 4096 bytes are given up", [](Json& osd) {
       osd["rows"][0]["fallbacks"]["hung"] = 5;
       osd["device"]["given_up_bytes"] = 4096;
     }}};

Json diagnosis_of(const Json& processes, std::vector<std::string> left_out = {}) {
  tools::Daemons daemons;
  daemons.directory = {{"path", "/x"}, {"stands_in_for", Json::array()}, {"findings", Json::array()}};
  return tools::diagnose(daemons, {processes, std::move(left_out)});
}

TEST(Doctor, FindsNothingWhereAllIsWell) {
  const Json found = diagnosis_of(two_osds());
  EXPECT_EQ(found["severity"], "ok") << found;
  EXPECT_TRUE(tools::text_of(found).ends_with("nothing is wrong\n"));
}

TEST(Doctor, SaysWhatIsWrongAndNothingElse) {
  for (const Illness& illness : illnesses) {
    Json processes = two_osds();
    illness.catch_it(processes[0]);
    const Json found = diagnosis_of(processes);
    EXPECT_EQ(found["severity"], illness.severity) << found;
    ASSERT_EQ(found["findings"].size(), 1u) << found;
    EXPECT_EQ(found["findings"][0]["check"], illness.check);
    const std::string text = tools::text_of(found);
    EXPECT_NE(text.find(illness.says), std::string::npos) << illness.says << '\n' << text;
    EXPECT_NE(text.find("do: " + found["findings"][0]["do"].get<std::string>()), std::string::npos) << text;
  }
}

TEST(Doctor, SaysWhatItCouldNotLookAt) {
  const Json found = diagnosis_of(two_osds(), {"process 5 did not answer in time"});
  EXPECT_EQ(found["severity"], "warning");
  EXPECT_NE(tools::text_of(found).find("left out: process 5 did not answer in time\n"), std::string::npos);
  EXPECT_EQ(found["left_out"].size(), 1u);
  EXPECT_TRUE(found["daemons_left_out"].empty());  // an OSD of which nothing is known is another matter
}

}  // namespace
}  // namespace ec::test
