// What libec_cuda.so answers to hosts of different releases. Ceph's own plugins beside ours: which serve in
// hosts of releases that ours does not know, under our name and under theirs; where the one for jerasure is
// looked for, and what is said where it is not. A plugin stays loaded, so each host is a process of its own.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>

#include "plugin/ceph/door.hpp"
#include "plugin/ceph/host.hpp"
#include "tests/common/child.hpp"
#include "tests/common/folder.hpp"
#include "tests/plugin/ceph/roles.hpp"
#include "tests/plugin/ceph/shifted.hpp"

namespace ec::test {
namespace {

namespace fs = std::filesystem;
constexpr const char* none = "none";

/// Whether that code is of our plugin's file, which hosts load by the names in Directories::host.
bool is_in_ours(const void* code) {
  Dl_info file{};
  return dladdr(code, &file) != 0 &&
         std::string_view(file.dli_fname).find("/host/") != std::string_view::npos;
}

}  // namespace
}  // namespace ec::test

// In place of the one in Ceph's library. A host without a version has one all the same, which it compares
// with ours.
__attribute__((visibility("default"), noinline)) const char* ceph_version_to_str() {
  const char* release = std::getenv("EC_TEST_RELEASE");
  if (release == nullptr) return "16.2.15";
  if (std::string_view(release) != ec::test::none) return release;
  return ec::test::is_in_ours(__builtin_return_address(0)) ? nullptr : "23.4.5";
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

/// The plugins of a host that has adopted: HOST/libec_{isa,jerasure,cuda}.so lead to ours, and beside our
/// file lie those of Ceph's own in OURS.
struct Directories {
  Folder top;
  const std::string host = top / "host", ours = top / "ours";

  explicit Directories(bool has_stock = true) {
    fs::create_directory(host);
    fs::create_directory(ours);
    const std::string file = ours + "/libec_cuda.so";
    fs::copy_file(EC_PLUGIN_DIR "/libec_cuda.so", file);
    for (const char* name : {"isa", "jerasure"}) {
      const std::string library = std::string("/libec_") + name + ".so";
      fs::create_symlink(file, host + library);
      if (has_stock) fs::create_symlink(EC_NEXT_STOCK_DIR + library, ours + library);
    }
    fs::create_symlink(file, host + "/libec_cuda.so");
  }
};

/// Lines in `text` that are ours.
long lines_of_ours(const std::string& text) {
  std::istringstream in(text);
  long count = 0;
  for (std::string line; std::getline(in, line);) count += line.find("ec_cuda: ") != line.npos;
  return count;
}

struct Host {
  const char* release;
  const char* table = "";
  const char* program = "ceph-osd";
  const char* stock_release = nullptr;  ///< that of the host, unless said
};

/// `use(log)` in a new process that is that host; log() is what its stderr holds and, which must be the same,
/// its log.
template <class Use>
void in_host(const Host& host, const Directories& directories, Use use) {
  // What takes long is made once.
  host::PluginHost::instance();
  Draw(0).bytes(1, 1);
  const auto be_host = [&] {
    setenv("EC_TEST_RELEASE", host.release, 1);
    const char* same = host.release == std::string_view(none) ? "23.4.5" : host.release;
    setenv("EC_TEST_STOCK_RELEASE", host.stock_release == nullptr ? same : host.stock_release, 1);
    setenv("EC_TEST_TABLE", host.table, 1);
    std::string program = host.program;
    program_invocation_short_name = program.data();
    const std::string path = directories.top / "ceph-osd.7.log";
    fs::remove(path);
    const int log = open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    testing::internal::CaptureStderr();
    use([&] {
      const std::string said = testing::internal::GetCapturedStderr();
      const std::string logged = content_of(path);
      EXPECT_EQ(lines_of_ours(logged), lines_of_ours(said)) << logged;
      testing::internal::CaptureStderr();
      return said;
    });
    testing::internal::GetCapturedStderr();
    close(log);
    return testing::Test::HasFailure() ? 255 : 0;
  };
  EXPECT_EQ(in_child(be_host), 0) << host.release << " " << host.program;
}

const Profile portable[] = {
    {{"k", "4"}, {"m", "2"}},
    {},
    {{"k", "2"}, {"m", "1"}, {"mapping", "DD_"}, {"backend", "gpu"}},
    {{"k", "21"}, {"m", "4"}, {"stripe_unit", "64K"}},
    {{"k", "32"}, {"m", "3"}},
    {{"k", "5"}, {"m", "3"}, {"technique", "cauchy"}, {"crush-failure-domain", "osd"}},
    {{"k", "95"}, {"m", "32"}, {"technique", "cauchy"}},
    {{"k", "4"}, {"m", "2"}, {"mapping", "DDDD__"}},
    {{"k", "4"}, {"m", "2"}, {"technique", "jerasure_reed_sol_van"}},
    {{"k", "40"}, {"m", "9"}, {"technique", "jerasure_reed_sol_van"}},
    {{"k", "6"}, {"m", "2"}, {"technique", "jerasure_reed_sol_r6_op"}},
};

/// That an object of the host's codes what our code does, and decodes it.
template <class Interface>
void codes_as_ours(Interface& theirs, ceph::Classic& ours) {
  ASSERT_EQ(theirs.get_chunk_count(), ours.get_chunk_count());
  const unsigned k = ours.get_data_chunk_count(), n = ours.get_chunk_count();
  Draw draw(k * n);
  for (const std::size_t length : {std::size_t{1}, std::size_t{k} * 4096, std::size_t{k} * 4096 + 77}) {
    const auto object = draw.bytes(length, 3);
    Chunks written, theirs_written, read;
    ASSERT_EQ(ours.encode(first_chunks(n), object, &written), 0);
    ASSERT_EQ(theirs.encode(first_chunks(n), object, &theirs_written), 0);
    EXPECT_EQ(difference(written, theirs_written, first_chunks(n)), "");
    const auto lost = draw.subset(first_chunks(n), n - k);
    ASSERT_EQ(theirs.decode(lost, without(written, lost), &read, static_cast<int>(written[0].length())), 0);
    EXPECT_EQ(difference(written, read, lost), "");
  }
}

[[maybe_unused]] void serves_as_ours(const Host& host, const Made& made, Profile profile) {
  ASSERT_TRUE(made.code) << made.error << made.why;
  EXPECT_FALSE(is_in_ours(*reinterpret_cast<void**>(made.code.get()))) << "its table is ours";
  ceph::Classic ours;
  ASSERT_EQ(ours.init(profile, nullptr), 0);
  if (std::string_view(host.table) == "shifted")
    codes_as_ours(*reinterpret_cast<Shifted*>(made.code.get()), ours);
  else
    codes_as_ours(*made.code, ours);
}

/// On stderr alone; what a host of a known release says is not of its log.
void expect_captured(const std::string& sentence) {
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(sentence), said.npos) << said;
  testing::internal::CaptureStderr();
}

/// What a host says of that profile.
void expect_said(const Host& host, const Directories& directories, const Profile& profile, int error,
                 const std::string& sentence) {
  in_host(host, directories, [&](auto log) {
    const Made made = make("cuda", profile, directories.host);
    EXPECT_EQ(made.error, error) << made.why;
    const std::string said = log();
    EXPECT_NE(said.find(sentence), said.npos) << said;
    if (error == -ENOTSUP) {
      EXPECT_EQ(made.profile.contains("technique"), profile.contains("technique"));
      EXPECT_EQ(lines_of_ours(said + made.why), 2) << "that it hands over, and why not";
    }
  });
}

TEST(Dialect, GoByTheRelease) {
  for (const char* version : {"16.2.15", "17.2.9", "18.2.7", "19.2.3-1"})
    EXPECT_EQ(ceph::dialect_of(version), ceph::Dialect::classic) << version;
  for (const char* version : {"20.2.4", "20.1.0-rc"})
    EXPECT_EQ(ceph::dialect_of(version), ceph::Dialect::tentacle) << version;
  for (const char* version : {"15.2.17", "21.1.0", "22.2.0", "20", "", "tentacle", "main-123", "-16.2",
                              "200.1.1", "2.0", "20.3.0-1234-gabc", "19.0.0-7-gabc", "20.21.0", "20-rc.2.0"})
    EXPECT_EQ(ceph::dialect_of(version), ceph::Dialect::none) << version;
  EXPECT_EQ(ceph::dialect_of(nullptr), ceph::Dialect::none);
}

TEST(Dialect, GoByTheNamesOfTypes) {
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

#ifdef EC_OTHER_TYPES
TEST(OtherTypes, AreNotSpoken) {
  // Debian's plugins are of another release.
  expect_said({"20.2.9"}, Directories(false), portable[0], -ENOENT,
              "sets and maps of shards of this Ceph 20.2.9 are not those of 20.2: it hands over");
  const Directories directories;
  in_host({"18.2.7"}, directories, [&](auto) {
    EXPECT_TRUE(make("cuda", portable[0], directories.host).code)
        << "the classic interface has no such types";
    expect_captured("for Ceph 18.2.7, classic interface");
  });
}
#else
TEST(Dialect, IsThatOfTheHost) {
  const Directories directories;
  const Profile mapped{{"k", "4"}, {"m", "2"}, {"mapping", "_DDDD_"}};
  for (const auto& [release, said_of_it] : {std::pair{"20.2.4", "for Ceph 20.2.4, tentacle interface"},
                                            {"19.2.1", "for Ceph 19.2.1, classic interface"}})
    in_host({release}, directories, [&](auto) {
      const Made made = make("cuda", mapped, directories.host);
      ASSERT_TRUE(made.code) << made.why;
      expect_captured(said_of_it);
      using Tentacle = ::ceph::tentacle::ErasureCodeInterface;
      if (release[0] == '2') {
        EXPECT_EQ(std::reinterpret_pointer_cast<Tentacle>(made.code)->get_supported_optimizations(), 0x57u);
      } else {
        EXPECT_EQ(made.code->get_chunk_mapping(), (std::vector<int>{1, 2, 3, 4, 0, 5}));
      }
    });
}

const Host hosts[] = {{"21.1.0"}, {"22.0.0", "shifted"}, {"main-123"},
                      {none},     {"20.3.0-1234-gabc"},  {"15.2.17"}};

TEST(PassThrough, ServesEveryPortableProfile) {
  const Directories directories;
  for (const Host& host : hosts)
    in_host(host, directories, [&](auto log) {
      for (const Profile& profile : portable)
        serves_as_ours(host, make("cuda", profile, directories.host), profile);
      const std::string said = log();
      EXPECT_EQ(lines_of_ours(said), 1) << said;
      EXPECT_NE(said.find("it hands over to Ceph's own plugins"), said.npos) << said;
    });
}

TEST(PassThrough, IsCephsOwnPluginInItsRole) {
  const Directories directories;
  for (const Host& host :
       {Host{"21.1.0"}, Host{"22.0.0", "shifted"}, Host{"main-123", "", "ceph-mon"}, Host{none}})
    in_host(host, directories, [&](auto log) {
      const Profile cauchy = profile_of("cauchy", 5, 3), van = profile_of("reed_sol_van", 5, 3);
      serves_as_ours(host, make("isa", cauchy, directories.host), cauchy);
      serves_as_ours(host, make("jerasure", van, directories.host),
                     profile_of("jerasure_reed_sol_van", 5, 3));
      EXPECT_EQ(lines_of_ours(log()), 1);
    });
}

TEST(PassThrough, RefusesWhatCephsOwnWouldCodeOtherwise) {
  const Directories directories;
  expect_said({"21.1.0"}, directories, {{"k", "4"}, {"m", "2"}, {"mapping", "_DDDD_"}}, -ENOTSUP,
              "k=4 m=2 technique= is not served on this Ceph: mapping=_DDDD_ must be none, or one that moves "
              "no chunk");
  expect_said({"21.1.0"}, directories, profile_of("reed_sol_van", 40, 3), -ENOTSUP,
              "k=40 must be at most 32");
  // Ceph's own plugin takes it, and the OSDs of a release that is known would abort.
  expect_said({"21.1.0", "", "ceph-mon"}, directories, {{"k", "4"}, {"m", "2"}, {"backend", "fast"}}, -ENOENT,
              "backend=fast must be one of");
  // A monitor would store Ceph's own name of the technique.
  expect_said({"21.1.0", "", "ceph-mon"}, directories, profile_of("jerasure_reed_sol_van", 4, 2), -ENOTSUP,
              "technique=jerasure_reed_sol_van must be plugin=jerasure technique=reed_sol_van here");
}

TEST(PassThrough, SaysWhatIsMissing) {
  const Directories bare(false);
  const auto fails = [&](const Host& host, int error, const std::string& sentence) {
    expect_said(host, bare, portable[0], error, sentence);
  };
  // Debian's own, of 16.2.15, is where packages put it.
  fails({"21.1.0"}, -ENOENT, "libec_isa.so is for Ceph 16.2.15, and this host is of 21.1.0");
  const Folder empty;
  setenv("EC_CUDA_STOCK_DIRECTORY", empty.path().c_str(), 1);
  fails({"21.1.0"}, -ENOENT,
        "plugin cuda: Ceph's own libec_isa.so, which codes what this plugin does not, is not in " +
            empty.path());
  fails({none}, -EXDEV, "this host exports no version, and Ceph's own libec_isa.so");
  setenv("EC_CUDA_STOCK_DIRECTORY", EC_NEXT_STOCK_DIR, 1);
  fails({"21.1.0", "", "ceph-osd", "20.2.4"}, -ENOENT,
        "libec_isa.so is for Ceph 20.2.4, and this host is of 21.1.0");
  unsetenv("EC_CUDA_STOCK_DIRECTORY");
}

TEST(PassThrough, CallsNoFactoryOfAnotherType) {
  expect_said({"24.2.0", "other"}, Directories(), portable[0], -ENOENT,
              "libec_isa.so has another factory than this plugin knows");
}

TEST(PassThrough, IsStoppedByNoSetting) {
  setenv("EC_CUDA_DEADLINE_MS", "soon", 1);
  expect_said({"21.1.0"}, Directories(), portable[0], 0, "settings are not read: EC_CUDA_DEADLINE_MS=soon");
  unsetenv("EC_CUDA_DEADLINE_MS");
}

TEST(KnownRelease, LooksForJerasureWherePackagesPutItOrTheSettingSays) {
  const Directories bare(false);
  const Folder other, empty, ours, no_library;
  const std::string file = "libec_jerasure.so";
  fs::copy_file(EC_STOCK_PLUGIN_DIR "/" + file, other / file);
  fs::copy_file(bare.ours + "/libec_cuda.so", ours / file);
  std::ofstream(no_library / file) << "no library";
  const std::string missing =
      "plugin jerasure: Ceph's own libec_jerasure.so, which codes what this plugin does not, is not in ";
  for (const auto& [setting, error, sentence] :
       {std::tuple(std::string("none"), 0, std::string("w=8 are coded by ec_cuda, all others by /usr/lib")),
        {other.path(), 0, other.path()},
        {empty.path(), -ENOENT, missing + empty.path()},
        {bare.host, -ENOENT, missing + bare.host},  // the link that the host has loaded us by
        {ours.path(), -ENOENT, missing + ours.path()},
        {no_library.path(), -EIO, "file too short"}}) {
    setenv("EC_CUDA_STOCK_DIRECTORY", setting.c_str(), 1);
    in_host({"16.2.15"}, bare, [&, error = error, sentence = sentence](auto) {
      EXPECT_EQ(make("jerasure", profile_of("cauchy_good", 4, 2), bare.host).error, error);
      expect_captured(sentence);
    });
  }
  unsetenv("EC_CUDA_STOCK_DIRECTORY");
}

TEST(KnownRelease, OfAnOsdServesPoolsThatAMonitorWouldRefuse) {
  const Directories directories;
  for (const auto& [program, error] : {std::pair{"ceph-osd", 0}, {"ceph-mon", -EINVAL}})
    in_host({"16.2.15", "", program}, directories, [&](auto) {
      Profile wide = profile_of("cauchy", 120, 8);
      for (const Profile& profile :
           {Profile{{"k", "4"}, {"m", "2"}, {"crush-failure_domain", "osd"}}, wide}) {
        const Made made = make("cuda", profile, directories.host);
        EXPECT_EQ(made.error, error) << made.why;
        EXPECT_TRUE(!made.code || is_in_ours(*reinterpret_cast<void**>(made.code.get())));
      }
      EXPECT_EQ(make("isa", wide, directories.host).error, 0) << "as Ceph's own";
    });
}

TEST(DaemonLog, IsKnownByItsName) {
  for (const char* path :
       {"/var/log/ceph/ceph-osd.3.log", "/x/mon.a.log", "/c/0f-mon.host.log", "osd.12.log"})
    EXPECT_TRUE(ceph::is_daemon_log(path)) << path;
  for (const char* path :
       {"/var/lib/ceph/mon/ceph-a/store.db/000012.log", "/var/log/ceph/ceph.log", "/x/cosd.3.log",
        "/var/lib/ceph/osd.3/x", "socket:[123]", "/osd.3/000012.log", ".log"})
    EXPECT_FALSE(ceph::is_daemon_log(path)) << path;
}
#endif

}  // namespace
}  // namespace ec::test
