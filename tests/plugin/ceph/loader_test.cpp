// Real plugins load and code by the rules of Ceph's loader; ours also on a fiber's stack, as hosts with short
// stacks call it.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "tests/common/fiber.hpp"
#include "tests/plugin/ceph/roles.hpp"

namespace ec::test {
namespace {

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

bool is_there(const std::string& name, const std::string& folder) {
  return std::filesystem::exists(folder + "/libec_" + name + ".so");
}

/// Encodes an object and reads it without m chunks. `run` makes each call.
template <class Run>
void code_and_read(const Made& made, unsigned k, unsigned m, std::size_t bytes, Run run) {
  ASSERT_TRUE(made.code) << made.why;
  auto& code = *made.code;
  EXPECT_EQ(code.get_data_chunk_count(), k);
  EXPECT_EQ(code.get_chunk_count(), k + m);
  std::string content(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(i * i >> 3);
  ceph::bufferlist object, read;
  object.append(content.substr(0, bytes / 3));
  object.append(content.substr(bytes / 3));
  const auto all = first_chunks(k + m);
  std::set<int> lost;
  for (unsigned c = 0; c < m; ++c) lost.insert(static_cast<int>(c * (k + m) / m));
  Chunks chunks, decoded;
  int error = -1;
  run([&] { error = code.encode(all, object, &chunks); });
  ASSERT_EQ(error, 0);
  const Chunks left = without(chunks, lost);
  const auto length = static_cast<int>(chunks[0].length());
  run([&] { error = code.decode(all, left, &decoded, length); });
  ASSERT_EQ(error, 0);
  EXPECT_EQ(difference(decoded, chunks, all), "");
  run([&] { error = code.decode_concat(left, &read); });
  ASSERT_EQ(error, 0);
  EXPECT_TRUE(read.to_str().starts_with(content));
}

class RealPlugin : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(RealPlugin, CodesAndReadsWithoutThree) {
  const auto [name, folder] = GetParam();
  if (!is_there(name, folder)) GTEST_SKIP() << "libec_" << name << ".so is not in " << folder;
  code_and_read(make(name, profile_of("cauchy", 5, 3), folder), 5, 3, 50'001, [](auto call) { call(); });
}

INSTANTIATE_TEST_SUITE_P(Loader, RealPlugin,
                         testing::Values(std::pair{"isa", EC_STOCK_PLUGIN_DIR},
                                         std::pair{"cuda", EC_PLUGIN_DIR}),
                         [](const auto& info) { return std::string(info.param.first); });

TEST(OnFiber, CodesAndReads) {
  if (!is_there("cuda", EC_PLUGIN_DIR)) GTEST_SKIP() << "this build has no plugin";
  for (const auto& [k, m] :
       {std::pair{4u, 2u}, {10u, 4u}, {32u, 8u}, {41u, 7u}, {64u, 16u}, {128u, 32u}, {128u, 127u}})
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096} * k, std::size_t{6} << 20}) {
      SCOPED_TRACE(testing::Message() << k << "+" << m << ", " << bytes << " bytes");
      code_and_read(make("cuda", profile_of("cauchy", k, m), EC_PLUGIN_DIR), k, m, bytes, stack_used);
      if (HasFailure()) return;
    }
}

}  // namespace
}  // namespace ec::test
