// Calls of the plugin on a fiber's stack, as hosts with short stacks make them.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/common/fiber.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/host/plugin_host.hpp"

namespace ec::test {
namespace {

class OnFiber : public testing::TestWithParam<std::pair<unsigned, unsigned>> {};

TEST_P(OnFiber, CodesAndReads) {
  const auto [k, m] = GetParam();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096} * k, std::size_t{6} << 20}) {
    ceph::ErasureCodeProfile profile{
        {"technique", "cauchy"}, {"k", std::to_string(k)}, {"m", std::to_string(m)}};
    std::ostringstream why;
    const auto made = host::PluginHost::instance().make("cuda", EC_PLUGIN_DIR, profile, &why);
    ASSERT_TRUE(made) << why.str();
    const std::vector<std::uint8_t> content = Random(k).bytes(bytes);
    ceph::bufferlist object, read;
    object.append(reinterpret_cast<const char*>(content.data()), static_cast<unsigned>(bytes));
    std::set<int> all;
    for (unsigned c = 0; c < k + m; ++c) all.insert(static_cast<int>(c));
    std::map<int, ceph::bufferlist> chunks, decoded;
    int error = -1;
    stack_used([&] { error = made.code->encode(all, object, &chunks); });
    ASSERT_EQ(error, 0);
    auto survivors = chunks;
    for (unsigned c = 0; c < m; ++c) survivors.erase(static_cast<int>(c * (k + m) / m));
    const int length = static_cast<int>(chunks[0].length());
    stack_used([&] { error = made.code->decode(all, survivors, &decoded, length); });
    ASSERT_EQ(error, 0);
    for (const int c : all) ASSERT_TRUE(decoded[c].contents_equal(chunks[c])) << c;
    stack_used([&] { error = made.code->decode_concat(survivors, &read); });
    ASSERT_EQ(error, 0);
    ASSERT_EQ(read.to_str().substr(0, bytes), object.to_str());
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, OnFiber,
                         testing::Values(std::pair{4u, 2u}, std::pair{10u, 4u}, std::pair{32u, 8u},
                                         std::pair{41u, 7u}, std::pair{64u, 16u}, std::pair{128u, 32u},
                                         std::pair{128u, 127u}),
                         [](const auto& info) {
                           return std::to_string(info.param.first) + "_" + std::to_string(info.param.second);
                         });

}  // namespace
}  // namespace ec::test
