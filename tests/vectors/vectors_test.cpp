// The committed vectors against the oracle and every back end.
#include <gtest/gtest.h>

#include <fstream>

#include "gf/generator.hpp"
#include "tests/kernels/backend_suite.hpp"
#include "tests/vectors/vectors.hpp"

namespace ec::test {
namespace {

const nlohmann::json& committed() {
  static const nlohmann::json document = nlohmann::json::parse(std::ifstream(EC_VECTORS_FILE));
  return document;
}

TEST(Vectors, AreWhatTheOracleComputes) { EXPECT_EQ(committed(), make_vectors()); }

TEST(Vectors, ASpotCheckedByHand) {
  // 2+1 with one byte: the data are 0 and 17, the coding chunk their sum.
  const auto& first = committed()["vectors"][0];
  EXPECT_EQ(first["k"], 2);
  EXPECT_EQ(first["m"], 1);
  EXPECT_EQ(first["chunk_bytes"], 1);
  EXPECT_EQ(first["coding"], nlohmann::json::array({"11"}));
}

class VectorsOn : public BackendTest {};

TEST_P(VectorsOn, EncodeToTheCommittedBytes) {
  ASSERT_FALSE(committed()["vectors"].empty());
  unsigned declined = 0, checked = 0;
  for (const auto& vector : committed()["vectors"]) {
    const unsigned k = vector["k"], m = vector["m"];
    const std::size_t bytes = vector["chunk_bytes"];
    const auto technique = gf::parse_technique(vector["technique"].get<std::string>());
    ASSERT_TRUE(technique);
    std::vector<GuardedChunk> chunks;
    std::vector<kernels::Source> sources;
    std::vector<kernels::Target> targets;
    for (unsigned c = 0; c < k + m; ++c) {
      chunks.emplace_back(arena(), c < k ? vector_data(c, bytes) : oracle::Bytes(bytes, 0x5a), 0);
      if (c < k)
        sources.push_back(chunks.back().source());
      else
        targets.push_back(chunks.back().target());
    }
    const kernels::Program program(gf::coding_matrix(*technique, k, m));
    const kernels::Job job{&program, sources, targets, bytes};
    if (!backend().supports(job)) {
      ++declined;
      continue;
    }
    ASSERT_EQ(backend().transform(job), kernels::Status::ok);
    for (unsigned r = 0; r < m; ++r)
      ASSERT_EQ(to_hex(chunks[k + r].inspect().content), vector["coding"][r].get<std::string>())
          << vector["technique"] << " " << k << "+" << m << ", coding chunk " << r;
    ++checked;
  }
  if (checked == 0) GTEST_SKIP() << "the back end declines all " << declined << " jobs in this memory";
}

INSTANTIATE_TEST_SUITE_P(Backends, VectorsOn, every_backend_and_memory(), param_name);

}  // namespace
}  // namespace ec::test
