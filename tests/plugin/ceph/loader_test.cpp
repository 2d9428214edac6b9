// What the host answers to plugins it cannot use: the codes of Ceph's daemons, which are part of what a
// plugin author relies on. The fixtures have one fault each; `none` has none.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "tools/host/plugin_host.hpp"

namespace {

using ec::host::PluginHost;

struct Fault {
  const char* plugin;
  int error;
  const char* reason;  ///< part of the text

  /// GoogleTest would print the bytes, those between the members too, which nobody has written.
  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.plugin; }
};

class BrokenPlugin : public testing::TestWithParam<Fault> {};

TEST_P(BrokenPlugin, IsRefusedWithTheCodeOfADaemon) {
  // The second time as the first: a refused plugin leaves nothing behind.
  for (int round = 0; round < 2; ++round) {
    std::ostringstream why;
    EXPECT_EQ(PluginHost::instance().load(GetParam().plugin, EC_FIXTURE_DIR, &why), GetParam().error);
    EXPECT_NE(why.str().find(GetParam().reason), std::string::npos) << why.str();
  }
}

// The expectations above are those of Ceph's own loader, which exits with the code it got.
TEST_P(BrokenPlugin, GetsTheSameCodeFromCephsTool) {
  const std::string tool = "ceph-erasure-code-tool";
  if (std::system(("command -v " + tool + " >/dev/null").c_str()) != 0)
    GTEST_SKIP() << "there is no " << tool;
  const std::string command = "CEPH_CONF=/dev/null CEPH_ARGS='--erasure-code-dir=" EC_FIXTURE_DIR "' " +
                              tool + " test-plugin-exists " + GetParam().plugin + " 2>/dev/null";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 256 + GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(Loader, BrokenPlugin,
                         testing::Values(Fault{"wrong_version", -EXDEV, "0.0.0"},
                                         Fault{"no_version", -EXDEV, "(none)"},
                                         Fault{"no_entry_point", -ENOENT, "__erasure_code_init"},
                                         Fault{"init_fails", -ESRCH, "No such process"},
                                         Fault{"does_not_register", -EBADF, "did not register"},
                                         Fault{"undefined_symbol", -EIO, "defined_nowhere"},
                                         Fault{"missing_file", -EIO, "cannot open"}),
                         [](const auto& info) { return std::string(info.param.plugin); });

TEST(Loader, TakesAPluginWithoutFault) {
  std::ostringstream why;
  EXPECT_EQ(PluginHost::instance().load("none", EC_FIXTURE_DIR, &why), 0) << why.str();
  EXPECT_EQ(PluginHost::instance().load("none", "/nowhere", &why), 0)
      << "a loaded plugin is known by name alone";
}

TEST(Loader, HandsOnWhatTheFactorySays) {
  ceph::ErasureCodeProfile profile{{"refuse", "1"}};
  std::ostringstream why;
  const auto made = PluginHost::instance().make("none", EC_FIXTURE_DIR, profile, &why);
  EXPECT_FALSE(made);
  EXPECT_EQ(made.error, -EDOM);
  EXPECT_EQ(why.str(), "refuse is set");
  EXPECT_EQ(PluginHost::instance().make("none", EC_FIXTURE_DIR, profile, nullptr).error, -EDOM);
}

TEST(Loader, RefusesAnObjectOfAnotherProfile) {
  ceph::ErasureCodeProfile profile{{"k", "1"}};
  EXPECT_TRUE(PluginHost::instance().make("none", EC_FIXTURE_DIR, profile, nullptr));
  EXPECT_EQ(PluginHost::instance().make("other_profile", EC_FIXTURE_DIR, profile, nullptr).error, -EINVAL);
}

#ifndef __SANITIZE_ADDRESS__
class FaultOfMemory : public testing::TestWithParam<const char*> {};

TEST_P(FaultOfMemory, IsForMemcheckToSee) {  // loader_memcheck_test
  ceph::ErasureCodeProfile profile{{"k", "1"}};
  EXPECT_TRUE(PluginHost::instance().make(GetParam(), EC_FIXTURE_DIR, profile, nullptr));
}

INSTANTIATE_TEST_SUITE_P(Loader, FaultOfMemory, testing::Values("leaks", "reads_uninitialised"),
                         [](const auto& info) { return std::string(info.param); });
#endif

class RealPlugin : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(RealPlugin, LoadsAndMakesAnObject) {
  const auto [name, directory] = GetParam();
  if (!std::filesystem::exists(std::string(directory) + "/libec_" + name + ".so"))
    GTEST_SKIP() << "libec_" << name << ".so is not in " << directory;
  ceph::ErasureCodeProfile profile{{"technique", "cauchy"}, {"k", "5"}, {"m", "3"}};
  std::ostringstream why;
  const auto made = PluginHost::instance().make(name, directory, profile, &why);
  ASSERT_TRUE(made) << why.str();
  EXPECT_EQ(made.code->get_data_chunk_count(), 5u);
  EXPECT_EQ(made.code->get_chunk_count(), 8u);
}

TEST_P(RealPlugin, CodesAndReadsWithoutThree) {
  const auto [name, directory] = GetParam();
  if (!std::filesystem::exists(std::string(directory) + "/libec_" + name + ".so"))
    GTEST_SKIP() << "libec_" << name << ".so is not in " << directory;
  ceph::ErasureCodeProfile profile{{"technique", "cauchy"}, {"k", "5"}, {"m", "3"}};
  const auto made = PluginHost::instance().make(name, directory, profile, nullptr);
  ASSERT_TRUE(made);
  std::string content(50'001, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * i >> 3);
  ceph::bufferlist object;
  object.append(content.substr(0, 20'000));
  object.append(content.substr(20'000));
  const std::set<int> all{0, 1, 2, 3, 4, 5, 6, 7};
  std::map<int, ceph::bufferlist> chunks, decoded;
  ASSERT_EQ(made.code->encode(all, object, &chunks), 0);
  auto survivors = chunks;
  for (const int lost : {0, 3, 6}) survivors.erase(lost);
  ASSERT_EQ(made.code->decode(all, survivors, &decoded, static_cast<int>(chunks[1].length())), 0);
  for (const int c : all) EXPECT_TRUE(decoded[c].contents_equal(chunks[c])) << c;
  ceph::bufferlist read;
  ASSERT_EQ(made.code->decode_concat(survivors, &read), 0);
  EXPECT_EQ(read.to_str().substr(0, content.size()), content);
}

INSTANTIATE_TEST_SUITE_P(Loader, RealPlugin,
                         testing::Values(std::pair{"isa", EC_STOCK_PLUGIN_DIR},
                                         std::pair{"cuda", EC_PLUGIN_DIR}),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
