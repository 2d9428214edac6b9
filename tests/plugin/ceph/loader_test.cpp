// Our plugin and Debian's isa plugin in a process that loads plugins as Ceph's daemons do.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>

#include "tests/host/plugin_host.hpp"

namespace {

using ec::host::PluginHost;

#ifndef __SANITIZE_ADDRESS__
// Two faults for memcheck to see: loader_memcheck_test.

TEST(FaultOfMemory, Leaks) {
  for (int i = 0; i < 10; ++i) *static_cast<volatile int*>(new int[100]) = i;
}

TEST(FaultOfMemory, ReadsUninitialised) {
  const std::unique_ptr<volatile char[]> raw(new char[100]);
  if (raw[50] == 'x') std::puts("by chance");
}
#endif

class RealPlugin : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(RealPlugin, CodesAndReadsWithoutThree) {
  const auto [name, directory] = GetParam();
  if (!std::filesystem::exists(std::string(directory) + "/libec_" + name + ".so"))
    GTEST_SKIP() << "libec_" << name << ".so is not in " << directory;
  ceph::ErasureCodeProfile profile{{"technique", "cauchy"}, {"k", "5"}, {"m", "3"}};
  std::ostringstream why;
  const auto made = PluginHost::instance().make(name, directory, profile, &why);
  ASSERT_TRUE(made) << why.str();
  EXPECT_EQ(made.code->get_data_chunk_count(), 5u);
  EXPECT_EQ(made.code->get_chunk_count(), 8u);
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
