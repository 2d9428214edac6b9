// The committed vectors, whose bytes no release changes, are what the oracle computes. That generators and
// back ends do as the oracle: tests/gf and tests/kernels.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/common/oracle.hpp"

namespace ec::test {
namespace {

/// Data chunk `chunk` of a vector, as the document says it.
oracle::Bytes vector_data(unsigned chunk, std::size_t bytes) {
  oracle::Bytes data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(31 * i + 17 * chunk + i / 251);
  return data;
}

TEST(Vectors, AreWhatTheOracleComputes) {
  const auto vectors = nlohmann::json::parse(std::ifstream(EC_VECTORS_FILE))["vectors"];
  EXPECT_EQ(vectors.size(), 62u);
  for (const auto& vector : vectors) {
    std::vector<oracle::Bytes> data;
    for (unsigned c = 0; c < vector["k"]; ++c) data.push_back(vector_data(c, vector["chunk_bytes"]));
    const std::string technique = vector["technique"];
    std::vector<std::string> coding;
    for (const auto& chunk : oracle::apply(oracle::coding_matrix(technique, vector["k"], vector["m"]), data))
      coding.push_back(fmt::format("{:02x}", fmt::join(chunk, "")));
    EXPECT_EQ(vector["coding"], coding) << technique << " " << vector["k"] << "+" << vector["m"];
  }
}

}  // namespace
}  // namespace ec::test
