// What an operator or a host can get wrong: each with the code and the exact sentence it gets, in
// bad_input.json. Keys without a row there fail the test. The calls of libeccoder are in
// tests/plugin/library/bad_input_test.cpp, all variables in tests/plugin/codec/settings/settings_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include <array>
#include <boost/algorithm/string/replace.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "plugin/ceph/profile.hpp"
#include "plugin/codec/settings/settings.hpp"
#include "tests/common/folder.hpp"
#include "tests/host/plugin_host.hpp"

/// Ceph's own, from libceph-common.
long long strict_iecstrtoll(std::string_view text, std::string* error);

namespace ec::test {
namespace {

namespace fs = std::filesystem;
using ::ceph::bufferlist;
using Profile = ::ceph::ErasureCodeProfile;
using Chunks = std::map<int, bufferlist>;

using nlohmann::json;

/// The rows of that name in bad_input.json.
const json& rows(const char* name) {
  static const json all = json::parse(std::ifstream(EC_BAD_INPUT));
  return all.at(name);
}

int number_of(const json& error) {
  return error == "EINVAL" ? EINVAL : error == "ENOENT" ? ENOENT : error == "EIO" ? EIO : 0;
}

// --- Keys of the profile.

/// With the key, "" for one that nobody knows.
std::vector<json> profile_rows() {
  std::vector<json> all = rows("profiles");
  // Values that are wrong whatever the others are.
  for (const json& row : rows("profile values"))
    for (const std::string value : row["values"]) {
      const std::string key = row["key"], allowed = row["allowed"];
      all.push_back({{"key", key},
                     {"profile", {{key, value}}},
                     {"error", row["error"]},
                     {"text", fmt::format("{}={} must be {}", key, value, allowed)}});
    }
  return all;
}

/// Names of the cluster's own: it refuses one that it does not have when a rule is made of them.
const std::set<std::string> cluster_names{"crush-root", "crush-failure-domain", "crush-device-class"};

TEST(BadProfile, IsRefusedByKeyAndValue) {
  for (const json& row : profile_rows())
    for (const bool has_stream : {true, false}) {
      Profile profile = row["profile"];
      std::ostringstream why;
      const auto made =
          host::PluginHost::instance().make("cuda", EC_PLUGIN_DIR, profile, has_stream ? &why : nullptr);
      EXPECT_EQ(made.error, -number_of(row["error"])) << row;
      EXPECT_EQ(why.str(), has_stream ? row["text"] : "");
    }
}

TEST(BadProfile, EveryKeyHasARow) {
  std::set<std::string> seen = cluster_names;
  for (const json& row : profile_rows()) seen.insert(row["key"]);
  for (const auto key : ceph::known_profile_keys())
    EXPECT_TRUE(seen.contains(std::string(key))) << key << " has no row";
}

/// Every text of up to four of these characters: those that are taken are numbers to Ceph, and fit where it
/// keeps them.
TEST(BadProfile, NoStripeUnitIsTakenThatCephReadsOtherwise) {
  constexpr std::string_view characters = "0149+-. \tBKMGTEikmx";
  unsigned taken = 0;
  const auto check = [&](const std::string& text) {
    Profile profile{{"k", "3"}, {"m", "2"}, {"stripe_unit", text}};
    try {
      ceph::parse_profile(ceph::Role::own, profile, 20);
    } catch (const codec::SetupError&) {
      return;
    }
    ++taken;
    std::string error;
    const long long bytes = strict_iecstrtoll(text, &error);  // what Ceph 16's monitor makes of it
    ASSERT_EQ(error, "") << text;
    EXPECT_TRUE(bytes >= 1 && bytes <= UINT32_MAX / 3) << text << " is " << bytes;
  };
  const std::function<void(std::string)> grow = [&](const std::string& text) {
    check(text);
    if (text.size() < 4)
      for (const char c : characters) grow(text + c);
  };
  grow("");
  EXPECT_GT(taken, 500u);
  for (const char* text : {"1", "08", "4096", "4096B", "4K", "4Ki", "1M", "1Gi", "1431655765"}) {
    Profile profile{{"k", "3"}, {"m", "2"}, {"stripe_unit", text}};
    EXPECT_NO_THROW(ceph::parse_profile(ceph::Role::own, profile, 20)) << text;
  }
}

// --- Variables of the node and command lines, by the programs themselves.

/// With what @PROGRAMS and @PLUGINS, directories, and @SETTINGS, the variables of the node, stand for.
std::string filled_in(std::string text) {
  boost::replace_all(text, "@PROGRAMS", EC_PROGRAM_DIR);
  boost::replace_all(text, "@PLUGINS", EC_PLUGIN_DIR);
  boost::replace_all(text, "@SETTINGS", fmt::format("{}", fmt::join(codec::known_settings(), ", ")));
  return text;
}

struct Answer {
  int status = 0;
  std::string text;  ///< stdout and stderr
};

/// Runs a command line of sh, which finds the programs.
Answer run(const std::string& line) {
  Answer answer;
  FILE* pipe = popen(("exec 2>&1; PATH=" EC_PROGRAM_DIR ":$PATH; " + filled_in(line)).c_str(), "r");
  std::array<char, 4096> part{};
  while (const std::size_t got = fread(part.data(), 1, part.size(), pipe))
    answer.text.append(part.data(), got);
  answer.status = WEXITSTATUS(pclose(pipe));
  if (answer.text.ends_with('\n')) answer.text.pop_back();
  // What the plugin says when it loads is not the program's answer.
  if (answer.text.starts_with("ec_cuda: version")) answer.text.erase(0, answer.text.find('\n') + 1);
  return answer;
}

/// Who starts a setuid program must not steer it.
TEST(BadVariable, IsNotReadByASetuidProgram) {
  struct statvfs mount {};
  ASSERT_EQ(statvfs("/tmp", &mount), 0);
  if (geteuid() != 0 || (mount.f_flag & ST_NOSUID) != 0) GTEST_SKIP() << "no setuid program can be made here";
  const Folder folder;
  const std::string copy = folder / "ec";
  fs::copy(EC_PROGRAM_DIR "/ec", copy);
  ASSERT_EQ(chown(copy.c_str(), 65534, 65534) + chmod(copy.c_str(), 04755), 0);
  for (const char* variable : {"", "EC_CUDA_RETRY_S=x", "EC_CUDA_DEVICE=0"}) {
    const Answer answer = run(fmt::format("{} {} create /dev/null", variable, copy));
    EXPECT_EQ(answer.status, 1) << variable;
    EXPECT_EQ(answer.text, "ec: /dev/null is not a regular file") << variable;
  }
}

TEST(BadCommandLine, IsRefusedByOptionVariableAndValue) {
  std::vector<json> all = rows("commands");
#ifdef EC_WITH_BENCH
  all.insert(all.end(), rows("commands of ec_bench").begin(), rows("commands of ec_bench").end());
#endif
  for (const json& row : all) {
    const std::string line = row[0];
    const Answer answer = run(line);
    EXPECT_EQ(answer.status, row[1]) << line;
    EXPECT_EQ(answer.text, filled_in(row[2])) << line;
  }
}

// --- Ceph's calls, on a stripe of 4+2 with chunks of 64 bytes.

struct Call {
  Call() {
    Profile profile{{"k", "4"}, {"m", "2"}};
    code = host::PluginHost::instance().make("cuda", EC_PLUGIN_DIR, profile, nullptr).code;
    object.append(std::string(256, 'x'));
    code->encode({0, 1, 2, 3, 4, 5}, object, &chunks);
    places = chunks;
  }
  int make(const std::string& what, const std::set<int>& want) {
    const Chunks before = places;
    bufferlist all;
    int answer = 0;
    if (what == "minimum_to_decode") answer = minimum(want);
    if (what == "encode_chunks") answer = code->encode_chunks({}, &chunks);
    if (what == "decode") answer = code->decode(want, chunks, &out, 64);
    if (what == "decode_chunks") answer = code->decode_chunks({}, chunks, &places);
    if (what == "decode_concat") answer = code->decode_concat(chunks, &all);
    EXPECT_TRUE(out.empty() && all.length() == 0) << "nothing is made";
    EXPECT_TRUE(std::ranges::equal(places, before, [](const auto& x, const auto& y) {
      return x.first == y.first && x.second.contents_equal(y.second);
    })) << "nothing is written";
    return answer;
  }
  int minimum(const std::set<int>& want) {
    std::set<int> there, cheapest;
    std::map<int, int> costs;
    for (const auto& [shard, list] : chunks) {
      there.insert(shard);
      costs[shard] = 1;
    }
    std::map<int, std::vector<std::pair<int, int>>> parts;
    const int answer = code->minimum_to_decode(want, there, &parts);
    EXPECT_EQ(code->minimum_to_decode_with_cost(want, costs, &cheapest), answer) << "with costs";
    EXPECT_TRUE(parts.empty() && cheapest.empty());
    return answer;
  }

  ::ceph::ErasureCodeInterfaceRef code;
  bufferlist object;
  Chunks chunks, places, out;
};

/// Of a row: "lost" shards are not there; "longer" has a byte more; "stranger" is there too, and is no shard
/// of the code; "longer place": where that shard is to be written has a byte more; "no places": there are
/// none.
TEST(BadCephCall, IsRefusedAndWritesNothing) {
  for (const json& row : rows("calls of Ceph")) {
    Call call;
    if (row.contains("stranger")) call.chunks[row["stranger"]] = call.chunks[0];
    for (const int shard : row["lost"]) call.chunks.erase(shard);
    if (row.contains("longer")) call.chunks.at(row["longer"]).append('y');
    if (row.contains("no places")) call.places = call.chunks;
    if (row.contains("longer place")) call.places.at(row["longer place"]).append('y');
    EXPECT_EQ(call.make(row["call"], row["want"]), -number_of(row["error"])) << row;
  }
}

TEST(BadCephCall, EncodeRefusesWhatDoesNotFitWhenPadded) {
  const ::ceph::bufferptr part(::ceph::buffer::create(1 << 26));
  bufferlist in;
  for (int i = 0; i < 63; ++i) in.append(part);
  in.append(::ceph::bufferptr(part, 0, (1 << 26) - 10));  // 4 GiB less 10 bytes
  Call call;
  EXPECT_EQ(call.code->encode({0, 5}, in, &call.out), -EINVAL);
  EXPECT_TRUE(call.out.empty());
}

}  // namespace
}  // namespace ec::test
