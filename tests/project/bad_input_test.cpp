// All that an operator, a program or a host can get wrong: each with the code and the exact sentence it gets.
// Keys, variables and calls without a row here fail the test. The calls of libeccoder are in
// tests/plugin/library/bad_input_test.cpp, further damage to calibration files in
// tests/plugin/codec/routing/calibration_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "plugin/ceph/profile.hpp"
#include "plugin/codec/settings/settings.hpp"
#include "plugin/codec/settings/setup_error.hpp"
#include "tools/host/plugin_host.hpp"

/// Ceph's own, from libceph-common.
long long strict_iecstrtoll(std::string_view text, std::string* error);

namespace ec::test {
namespace {

namespace fs = std::filesystem;
using ::ceph::bufferlist;
using Profile = ::ceph::ErasureCodeProfile;
using Chunks = std::map<int, bufferlist>;

// --- Keys of the profile.

struct ValueRow {
  const char* key;
  std::vector<const char*> values;
  int error;
  const char* allowed;
};

/// Values that are wrong whatever the others are.
const ValueRow value_rows[] = {
    {"k",
     {"8x", "-4", "+8", " 8", "8 ", "0x8", "8K", "4294967296"},
     EINVAL,
     "a whole number, at least 2, with k+m at most 255"},
    {"m",
     {"3x", "-1", "+3", " 2", "2\t", "3.0", "4294967298"},
     EINVAL,
     "a whole number, at least 1, with k+m at most 255"},
    {"technique", {"liberation", "Cauchy"}, ENOENT, "one of reed_sol_van, cauchy"},
    {"backend", {"fast"}, ENOENT, "one of auto, cpu, gpu, x86, isal, reference"},
    {"stripe_unit",
     {"0",  "0K",  "00",  "+4G",  "+4294967296", "+4096", "-1", "-4G",    "--4K", " 4096", "4096 ",
      "4k", "4Kx", "4KK", "4KiB", "4Bi",         "4i",    "K",  "0x1000", "4.5K", "1e6",   ""},
     EINVAL,
     "a whole number of bytes, at least 1; the suffixes K, M and G multiply by powers of 1024"},
    {"crush-num-failure-domains",
     {"2", "x"},
     EINVAL,
     "0; for another rule make one with ceph osd crush rule and name it with the pool"},
    {"crush-osds-per-failure-domain",
     {"2", "+1"},
     EINVAL,
     "0; for another rule make one with ceph osd crush rule and name it with the pool"},
};

struct ProfileRow {
  const char* key;  ///< "" for a key that nobody knows
  Profile profile;
  int error;
  std::string text;
};

std::vector<ProfileRow> profile_rows() {
  std::vector<ProfileRow> rows{
      {"k", {{"k", "1"}}, EINVAL, "k=1 must be at least 2"},
      {"k", {{"k", "4294967295"}}, EINVAL, "k=4294967295 and m=3: k+m must be at most 255"},
      {"m", {{"m", "0"}}, EINVAL, "m=0 must be at least 1"},
      {"m", {{"k", "254"}, {"m", "2"}}, EINVAL, "k=254 and m=2: k+m must be at most 255"},
      {"technique",
       {{"k", "22"}, {"m", "4"}},
       EINVAL,
       "k=22 and m=4: technique=reed_sol_van cannot recover every loss of m chunks in this shape; allowed "
       "are m <= 3, or m = 4 with k <= 21, or k <= 3, or k = 4 with m <= 21, or k = 5 with m <= 5; "
       "technique=cauchy has no such limit"},
      {"mapping",
       {{"k", "2"}, {"m", "1"}, {"mapping", "DD"}},
       EINVAL,
       "mapping=DD has 2 positions, 2 of them D; k=2 and m=1 need 3 positions with 2 D"},
      {"mapping",
       {{"k", "2"}, {"m", "1"}, {"mapping", "d_D"}},
       EINVAL,
       "mapping=d_D has 3 positions, 1 of them D; k=2 and m=1 need 3 positions with 2 D"},
      {"",
       {{"K", "4"}},
       EINVAL,
       "unknown key K=4; plugin=cuda knows k, m, technique, backend, mapping, crush-root, "
       "crush-failure-domain, crush-device-class, and Ceph's own stripe_unit and crush-*"},
  };
  for (const char* wide : {"1G", "1Gi", "1073741824", "4G", "18446744073709551616", "16E", "9P"})
    rows.push_back({"stripe_unit",
                    {{"k", "4"}, {"stripe_unit", wide}},
                    EINVAL,
                    fmt::format("stripe_unit={} with k=4: k x stripe_unit must be less than 4 GiB", wide)});
  for (const auto& [key, values, error, allowed] : value_rows)
    for (const char* value : values)
      rows.push_back({key, {{key, value}}, error, fmt::format("{}={} must be {}", key, value, allowed)});
  return rows;
}
/// Names of the cluster's own: it refuses one that it does not have when a rule is made of them.
const std::set<std::string_view> cluster_names{"crush-root", "crush-failure-domain", "crush-device-class"};

TEST(BadProfile, IsRefusedByKeyAndValue) {
  for (const auto& row : profile_rows()) {
    Profile profile = row.profile;
    std::ostringstream why;
    EXPECT_EQ(host::PluginHost::instance().make("cuda", EC_PLUGIN_DIR, profile, &why).error, -row.error)
        << row.text;
    EXPECT_EQ(why.str(), row.text);
    profile = row.profile;
    EXPECT_EQ(host::PluginHost::instance().make("cuda", EC_PLUGIN_DIR, profile, nullptr).error, -row.error);
  }
}

TEST(BadProfile, EveryKeyHasARow) {
  std::set<std::string_view> rows = cluster_names;
  for (const auto& row : profile_rows()) rows.insert(row.key);
  for (const auto key : ceph::known_profile_keys()) EXPECT_TRUE(rows.contains(key)) << key << " has no row";
}

/// What Ceph 16's monitor makes of a stripe_unit, by its own function.
std::optional<long long> read_by_ceph(const std::string& text) {
  std::string error;
  const long long number = strict_iecstrtoll(text, &error);
  return error.empty() ? std::optional(number) : std::nullopt;
}

/// Every text of up to four of these characters: those that are taken are numbers to Ceph, and fit where it
/// keeps them.
TEST(BadProfile, NoStripeUnitIsTakenThatCephReadsOtherwise) {
  constexpr std::string_view characters = "0149+-. \tBKMGTEikmx";
  unsigned taken = 0;
  const auto check = [&](const std::string& text) {
    Profile profile{{"k", "3"}, {"m", "2"}, {"stripe_unit", text}};
    try {
      ceph::parse_profile(profile);
    } catch (const codec::SetupError&) {
      return;
    }
    ++taken;
    const auto bytes = read_by_ceph(text);
    ASSERT_TRUE(bytes) << text;
    EXPECT_TRUE(*bytes >= 1 && *bytes <= UINT32_MAX / 3) << text << " is " << *bytes;
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
    EXPECT_NO_THROW(ceph::parse_profile(profile)) << text;
  }
}

// --- Variables of the node, calibration files and command lines, by the programs themselves.

struct Answer {
  int status = 0;
  std::string text;  ///< stdout and stderr
};

/// Runs a command line of sh, with @B for the directory of the programs and @P for that of the plugin.
Answer run(std::string line) {
  const auto replace = [&](std::string_view what, const char* by) {
    for (auto at = line.find(what); at != std::string::npos; at = line.find(what))
      line.replace(at, what.size(), by);
  };
  replace("@B", EC_PROGRAM_DIR);
  replace("@P", EC_PLUGIN_DIR);
  Answer answer;
  FILE* pipe = popen(("exec 2>&1; " + line).c_str(), "r");
  std::array<char, 4096> part{};
  while (const std::size_t got = fread(part.data(), 1, part.size(), pipe))
    answer.text.append(part.data(), got);
  answer.status = WEXITSTATUS(pclose(pipe));
  if (answer.text.ends_with('\n')) answer.text.pop_back();
  return answer;
}

struct VariableRow {
  std::string name;
  std::string value;
  std::string allowed;
};

const std::string bytes = " bytes; the suffixes K, M and G multiply by powers of 1024";
const VariableRow variable_rows[] = {
    {"EC_CUDA_BACKEND", "cuda", "one of auto, cpu, gpu, x86, isal, reference"},
    {"EC_CUDA_DEVICES", "0,64",
     "ordinals of GPUs from 0 to 63, separated by commas, at most 16 and no two alike"},
    {"EC_CUDA_THRESHOLD", "64k", "a whole number from 0 to 1099511627776" + bytes},
    {"EC_CUDA_DEADLINE_MS", "0", "a whole number from 1 to 600000"},
    {"EC_CUDA_RETRY_S", "1.5", "a whole number from 0 to 86400"},
    {"EC_CUDA_STAGING_BYTES", "1023K", "a whole number from 1048576 to 1099511627776" + bytes},
    {"EC_CUDA_PINNED_BYTES", "1M", "a whole number from 2097152 to 1099511627776" + bytes},
    {"EC_CUDA_PINNED_THRESHOLD", "-1", "a whole number from 4096 to 1099511627776" + bytes},
    {"EC_CUDA_PINNED_REPORT", "yes", "a whole number from 0 to 1"},
    {"EC_CUDA_CALIBRATION", "calibration.json", "an absolute path or none"},
    {"EC_CUDA_VALIDATE", "sometimes",
     "off, always, or sample:N with N from 1 to 1000000000, for one call in N"},
    {"EC_CUDA_REPRODUCERS", "x", "an absolute path or none"},
};

TEST(BadVariable, IsRefusedByNameAndValue) {
  for (const auto& [name, value, allowed] : variable_rows) {
    const Answer answer = run(fmt::format("{}={} @B/ectool calibrate --show", name, value));
    EXPECT_EQ(answer.status, 1);
    EXPECT_EQ(answer.text, fmt::format("ectool: {}={} must be {}", name, value, allowed));
  }
  const Answer unknown = run("EC_CUDA_DEVICE=0 @B/ectool calibrate --show");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_EQ(unknown.text, fmt::format("ectool: unknown variable EC_CUDA_DEVICE; known are {}",
                                      fmt::join(codec::known_settings(), ", ")));
}

TEST(BadVariable, EveryVariableHasARow) {
  std::set<std::string_view> rows;
  for (const auto& row : variable_rows) rows.insert(row.name);
  for (const auto name : codec::known_settings()) EXPECT_TRUE(rows.contains(name)) << name << " has no row";
}

/// Who starts a setuid program must not steer it.
TEST(BadVariable, IsNotReadByASetuidProgram) {
  struct statvfs mount {};
  ASSERT_EQ(statvfs("/tmp", &mount), 0);
  if (geteuid() != 0 || (mount.f_flag & ST_NOSUID) != 0) GTEST_SKIP() << "no setuid program can be made here";
  char name[] = "/tmp/bad-input-test.XXXXXX";
  const fs::path directory = mkdtemp(name);
  const auto copy = (directory / "ectool").string();
  fs::copy(EC_PROGRAM_DIR "/ectool", copy);
  ASSERT_EQ(chown(copy.c_str(), 65534, 65534) + chown(name, 65534, 65534) + chmod(copy.c_str(), 04755), 0);
  for (const char* variable : {"EC_CUDA_RETRY_S=x", "EC_CUDA_DEVICE=0"}) {
    const Answer answer = run(fmt::format("{} {} calibrate --show", variable, copy));
    EXPECT_EQ(answer.status, 0) << answer.text;
    EXPECT_EQ(answer.text.substr(0, 16), "costs: built in\n");
  }
  fs::remove_all(directory);
}

TEST(BadVariable, KeepsADaemonFromLoadingThePlugin) {
  const Answer answer =
      run("EC_CUDA_RETRY_S=x @B/ec_demo encode --plugin-dir @P --store /nowhere --file /dev/null");
  EXPECT_EQ(answer.status, 1);
  EXPECT_EQ(answer.text,
            "plugin cuda: EC_CUDA_RETRY_S=x must be a whole number from 0 to 86400\nec_demo: " EC_PLUGIN_DIR
            "/libec_cuda.so: __erasure_code_init: Invalid argument (Invalid argument)");
}

class BadCalibration : public testing::Test {
 protected:
  BadCalibration() {
    char name[] = "/tmp/bad-input-test.XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~BadCalibration() override { fs::remove_all(directory_); }
  std::string file() const { return directory_ / "file"; }
  void expect_refused(const std::string& why) const {
    const Answer answer = run(fmt::format("EC_CUDA_CALIBRATION={} @B/ectool calibrate --show", file()));
    EXPECT_EQ(answer.status, 0) << "costs are built in, so there is always an answer";
    EXPECT_EQ(answer.text.substr(0, answer.text.find('\n')),
              fmt::format("ec_cuda: {} is not used, costs are the built-in ones: {}", file(), why));
  }
  fs::path directory_;
};

TEST_F(BadCalibration, IsNotUsedAndSaysWhy) {
  expect_refused("it cannot be opened: No such file or directory");
  fs::create_directory(file());
  expect_refused("it is not a regular file");
  fs::remove(file());
  const std::pair<std::string, const char*> texts[] = {
      {"", "it is not JSON"},
      {"{}", "it has no format"},
      {R"({"format":1})", "it is of format 1, and this version reads format 3"},
      {R"({"format":3,"cpu":"a Z80"})", "it was measured on another CPU than this machine's"},
      {std::string(65'537, ' '), "it is larger than 65536 bytes"},
  };
  for (const auto& [text, why] : texts) {
    std::ofstream(file()) << text;
    expect_refused(why);
  }
  chmod(file().c_str(), 0666);
  expect_refused("others may write to it (chmod go-w mends that)");
  if (geteuid() != 0) return;  // only root gives files away
  ASSERT_EQ(chown(file().c_str(), 12345, 12345), 0);
  expect_refused("it belongs to user 12345, and only root's or one's own is trusted");
}

struct CommandRow {
  const char* line;
  int status;
  const char* text;
};

const CommandRow command_rows[] = {
    {"ectool", 2, "ectool: a command is missing: calibrate, explain, replay or stats; see --help"},
    {"ectool measure", 2, "ectool: unknown command measure: calibrate, explain, replay or stats"},
    {"ectool --nope", 2, "ectool: unrecognised option '--nope'"},
    {"ectool calibrate now", 2, "ectool: calibrate takes no now"},
    {"ectool calibrate --show --output /x", 2,
     "ectool: --show measures nothing, so there is nothing for --output"},
    {"ectool explain --show", 2, "ectool: --show goes with calibrate only"},
    {"ectool explain", 2, "ectool: explain: k= is missing"},
    {"ectool replay", 2, "ectool: replay takes one file, a reproducer"},
    {"ectool stats x", 2, "ectool: stats: PID=x must be a whole number from 1 to 4194304"},
    {"ectool stats --show", 2, "ectool: --show goes with calibrate only"},
    {"ectool explain --json", 2, "ectool: --json and --prometheus go with stats only"},
    {"ectool explain k", 2,
     "ectool: explain: k is not name=value; known are k, m, bytes, residence, op, erasures, stripes, jobs, "
     "backend"},
    {"ectool explain k=4 k=5", 2, "ectool: explain: k is given twice"},
    {"ectool explain k=1 m=2 bytes=1", 2, "ectool: explain: k=1 must be a whole number from 2 to 254"},
    {"ectool explain k=4 m=252 bytes=1", 2, "ectool: explain: m=252 must be a whole number from 1 to 251"},
    {"ectool explain k=4 m=2 bytes=0", 2,
     "ectool: explain: bytes=0 must be a whole number from 1 to 4294967296 bytes; the suffixes K, M and G "
     "multiply by "
     "powers of 1024"},
    {"ectool explain k=4 m=2 bytes=1 residence=ram", 2,
     "ectool: explain: residence=ram must be one of pageable, pinned, device"},
    {"ectool explain k=4 m=2 bytes=1 op=copy", 2,
     "ectool: explain: op=copy must be one of encode, decode, update"},
    {"ectool explain k=4 m=2 bytes=1 erasures=1", 2, "ectool: explain: erasures=1 goes with op=decode only"},
    {"ectool explain k=4 m=2 bytes=1 backend=fast", 2,
     "ectool: explain: backend=fast must be one of auto, cpu, gpu, x86, isal, reference"},
    {"ec_demo", 2, "ec_demo: command is missing; see --help"},
    {"ec_demo write", 2, "ec_demo: unknown command write; see --help"},
    {"ec_demo encode", 2, "ec_demo: file is missing; see --help"},
    {"ec_demo encode --stripe-unit 33", 2,
     "ec_demo: --stripe-unit must be a multiple of 32, at most 16777216"},
    {"ec_demo encode --stripe-unit x", 2,
     "ec_demo: the argument ('x') for option '--stripe-unit' is invalid"},
    {"ec_demo encode --plugin-dir @P --store /nowhere --file /dev/null --profile k", 2,
     "ec_demo: --profile k is not KEY=VALUE"},
    {"ec_demo encode --plugin-dir /nowhere --store /nowhere --file /dev/null", 1,
     "ec_demo: dlopen: /nowhere/libec_cuda.so: cannot open shared object file: No such file or directory "
     "(Input/output error)"},
    {"ec_demo encode --plugin-dir @P --store /nowhere --file /dev/null --profile k=1", 1,
     "ec_demo: k=1 must be at least 2 (Invalid argument)"},
    {"ec_demo read --plugin-dir @P --store /nowhere --file /dev/null", 1,
     "ec_demo: /nowhere holds no object.json"},
#ifdef EC_WITH_BENCH
    {"ec_bench codec --nope", 2, "ec_bench: unrecognised option '--nope'; see ec_bench codec --help"},
    {"ec_bench codec --shapes 4", 2,
     "ec_bench: --shapes 4: must be K+M with K and M at least 1 and at most 255 in all, as 4+2"},
    {"ec_bench codec --shapes 1+1", 2, "ec_bench: --shapes 1+1: k=1 must be at least 2"},
    {"ec_bench codec --sizes 0", 2,
     "ec_bench: --sizes 0: must be a whole number from 1 to 2147483648; K, M or G behind it are powers of "
     "1024"},
    {"ec_bench codec --ops fly", 2, "ec_bench: --ops fly: must be one of encode, decode"},
    {"ec_bench codec --threads 0", 2,
     "ec_bench: --threads 0: must be a whole number from 1 to 1024; K, M or G behind it are powers of 1024"},
    {"ec_bench codec --rounds 0", 2,
     "ec_bench: --rounds 0: must be a whole number from 1 to 100000; K, M or G behind it are powers of 1024"},
    {"ec_bench codec --sample-ms -1", 2,
     "ec_bench: --sample-ms -1: must be a whole number from 0 to 600000; K, M or G behind it are powers of "
     "1024"},
    {"ec_bench codec --json /nowhere/x", 2,
     "ec_bench: --json /nowhere/x: must be a file that can be written"},
    {"ec_bench cpu --sections x", 2,
     "ec_bench: --sections x: must be one of cold, warm, decode, solve, threads"},
#endif
};

TEST(BadCommandLine, IsRefusedByOptionAndValue) {
  for (const auto& row : command_rows) {
    const Answer answer = run(std::string("@B/") + row.line);
    EXPECT_EQ(answer.status, row.status) << row.line;
    EXPECT_EQ(answer.text, row.text) << row.line;
  }
}

// --- Ceph's calls, on a stripe of 4+2 with chunks of 64 bytes.

enum class CephCall { minimum_to_decode, encode_chunks, decode, decode_chunks, decode_concat };
using enum CephCall;

struct Call {
  Call() {
    Profile profile{{"k", "4"}, {"m", "2"}};
    code = host::PluginHost::instance().make("cuda", EC_PLUGIN_DIR, profile, nullptr).code;
    object.append(std::string(256, 'x'));
    code->encode({0, 1, 2, 3, 4, 5}, object, &chunks);
    places = chunks;
  }
  int make(CephCall what, const std::set<int>& want) {
    const Chunks before = places;
    bufferlist all;
    int answer = 0;
    if (what == minimum_to_decode) answer = minimum(want);
    if (what == encode_chunks) answer = code->encode_chunks({}, &chunks);
    if (what == decode) answer = code->decode(want, chunks, &out, 64);
    if (what == decode_chunks) answer = code->decode_chunks({}, chunks, &places);
    if (what == decode_concat) answer = code->decode_concat(chunks, &all);
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

constexpr int none = -2, no_places = -3;
struct CallRow {
  CephCall call;
  std::set<int> lost;  ///< these shards are not there
  std::set<int> want;
  int error;
  int longer = none;        ///< this one has a byte more
  int stranger = none;      ///< this one is there too, and is no shard of the code
  int longer_place = none;  ///< the place of this one has a byte more; `no_places`: there is none for any
};

const CallRow call_rows[] = {
    {minimum_to_decode, {0, 4, 5}, {0}, EIO},
    {minimum_to_decode, {0, 1, 2, 3, 4, 5}, {0}, EIO},
    {minimum_to_decode, {4, 5}, {6}, EINVAL},
    {minimum_to_decode, {0, 4, 5}, {0}, EINVAL, none, -1},
    {encode_chunks, {0, 1, 2, 3, 4, 5}, {}, EINVAL},
    {encode_chunks, {3}, {}, EINVAL},
    {encode_chunks, {}, {}, EINVAL, 4},
    {encode_chunks, {5}, {}, EINVAL, none, 6},
    {decode, {0, 1, 2, 3, 4, 5}, {0}, EIO},
    {decode, {0, 1, 5}, {1}, EIO},
    {decode, {}, {6}, EINVAL},
    {decode, {}, {-1}, EINVAL},
    {decode, {0}, {0}, EINVAL, none, 7},
    {decode, {0}, {0}, EINVAL, 2},
    {decode_chunks, {0, 1, 2, 3, 4, 5}, {}, EIO},
    {decode_chunks, {0, 1, 5}, {}, EIO},
    {decode_chunks, {1}, {}, EINVAL, none, none, no_places},
    {decode_chunks, {1}, {}, EINVAL, none, none, 1},
    {decode_concat, {0, 1, 2, 3, 4, 5}, {}, EIO},
    {decode_concat, {0, 1, 2}, {}, EIO},
    {decode_concat, {0}, {}, EINVAL, 5},
};

TEST(BadCephCall, IsRefusedAndWritesNothing) {
  for (std::size_t row = 0; row < std::size(call_rows); ++row) {
    const CallRow& wrong = call_rows[row];
    Call call;
    if (wrong.stranger != none) call.chunks[wrong.stranger] = call.chunks[0];
    for (const int shard : wrong.lost) call.chunks.erase(shard);
    if (wrong.longer != none) call.chunks.at(wrong.longer).append('y');
    if (wrong.longer_place == no_places) call.places = call.chunks;
    if (wrong.longer_place >= 0) call.places.at(wrong.longer_place).append('y');
    EXPECT_EQ(call.make(wrong.call, wrong.want), -wrong.error) << "row " << row;
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

TEST(BadCephCall, EncodeHasNothingForAShardThatIsNone) {
  Call call;
  EXPECT_EQ(call.code->encode({-1, 9}, call.object, &call.out), 0);
  EXPECT_TRUE(call.out.empty());
  // As many as there are, and yet not all of them.
  EXPECT_EQ(call.code->encode({0, 1, 2, 3, 4, 9}, call.object, &call.out), 0);
  EXPECT_EQ(call.out.size(), 5u);
  EXPECT_FALSE(call.out.contains(5));
  // Nor of an empty object.
  call.out.clear();
  EXPECT_EQ(call.code->encode({-1, 0, 9}, {}, &call.out), 0);
  EXPECT_EQ(call.out.size(), 1u);
}

}  // namespace
}  // namespace ec::test
