// The committed vectors against the oracle and every back end. EC_WRITE_VECTORS=1 writes them
// anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gf/generator.hpp"
#include "tests/kernels/backend_suite.hpp"

namespace ec::test {
namespace {

struct Entry {
  const char* technique;
  unsigned k, m;
  std::vector<std::size_t> chunk_bytes;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      {"reed_sol_van", 2, 1, {1, 32, 1000}},
      {"reed_sol_van", 4, 2, {1, 32, 67, 1000}},
      {"reed_sol_van", 7, 3, {1, 32, 67}},
      {"reed_sol_van", 8, 3, {32, 515}},
      {"reed_sol_van", 10, 4, {32, 67}},
      {"reed_sol_van", 21, 4, {32, 67}},
      {"reed_sol_van", 32, 3, {32}},
      {"reed_sol_van", 252, 3, {32}},
      {"reed_sol_van", 4, 21, {32}},
      {"reed_sol_van", 3, 60, {32}},
      {"cauchy", 2, 1, {1, 32}},
      {"cauchy", 4, 2, {1, 32, 67, 1000}},
      {"cauchy", 7, 3, {1, 32, 67}},
      {"cauchy", 8, 3, {32, 515}},
      {"cauchy", 10, 4, {32, 67}},
      {"cauchy", 8, 8, {32, 67}},
      {"cauchy", 32, 8, {32}},
      {"cauchy", 100, 20, {32}},
      {"cauchy", 127, 128, {8}},
      {"jerasure_reed_sol_van", 2, 1, {32}},
      {"jerasure_reed_sol_van", 2, 2, {32, 67}},
      {"jerasure_reed_sol_van", 4, 2, {1, 32, 64, 992}},
      {"jerasure_reed_sol_van", 7, 3, {32, 67, 512}},
      {"jerasure_reed_sol_van", 8, 3, {32, 515}},
      {"jerasure_reed_sol_van", 10, 4, {32, 67}},
      {"jerasure_reed_sol_van", 6, 6, {64}},
      {"jerasure_reed_sol_van", 20, 6, {32}},
      {"jerasure_reed_sol_van", 100, 20, {32}},
      {"jerasure_reed_sol_van", 128, 127, {32}},
      {"jerasure_reed_sol_r6_op", 2, 2, {32}},
      {"jerasure_reed_sol_r6_op", 4, 2, {32, 67, 992}},
      {"jerasure_reed_sol_r6_op", 12, 2, {64}},
      {"jerasure_reed_sol_r6_op", 253, 2, {32}},
  };
  return all;
}

/// Data chunk `chunk` of a vector: byte i is (31 i + 17 chunk + floor(i / 251)) mod 256.
oracle::Bytes vector_data(unsigned chunk, std::size_t bytes) {
  oracle::Bytes data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(31 * i + 17 * chunk + i / 251);
  return data;
}

std::string to_hex(const oracle::Bytes& bytes) {
  std::string text;
  for (auto byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

/// The whole document, as it is committed in vectors.json, from the oracle alone.
nlohmann::json make_vectors() {
  nlohmann::json document;
  document["format"] = 1;
  document["field"] = "GF(2^8), polynomial 0x11d; a byte is an element, its lowest bit the constant term";
  document["data"] = "byte i of data chunk c is (31 i + 17 c + floor(i / 251)) mod 256; c and i count from 0";
  document["coding"] = "hexadecimal, one string for each coding chunk, in order";
  document["techniques"] = {
      {"reed_sol_van", "coding chunk r = sum over c of (2^r)^c . data chunk c"},
      {"cauchy", "coding chunk r = sum over c of 1/((k + r) xor c) . data chunk c; the plain sum if m = 1"},
      {"jerasure_reed_sol_van",
       "coding chunk r = sum over c of x (k xor c)/(k (x xor c)) . data chunk c with x = k + r, the last "
       "coding "
       "chunk of (k xor c)/k; the plain sum if m = 1"},
      {"jerasure_reed_sol_r6_op", "coding chunk 0 = the plain sum, 1 = sum over c of 2^c . data chunk c"}};
  for (const Entry& entry : entries())
    for (const auto bytes : entry.chunk_bytes) {
      std::vector<oracle::Bytes> data;
      for (unsigned c = 0; c < entry.k; ++c) data.push_back(vector_data(c, bytes));
      nlohmann::json vector{
          {"technique", entry.technique}, {"k", entry.k}, {"m", entry.m}, {"chunk_bytes", bytes}};
      for (const auto& chunk : oracle::apply(oracle::coding_matrix(entry.technique, entry.k, entry.m), data))
        vector["coding"].push_back(to_hex(chunk));
      document["vectors"].push_back(std::move(vector));
    }
  return document;
}

const nlohmann::json& committed() {
  static const nlohmann::json document = nlohmann::json::parse(std::ifstream(EC_VECTORS_FILE));
  return document;
}

TEST(Vectors, AreWhatTheOracleComputes) {
  if (std::getenv("EC_WRITE_VECTORS") != nullptr)
    std::ofstream(EC_VECTORS_FILE) << make_vectors().dump(1) << '\n';
  EXPECT_EQ(committed(), make_vectors());
}

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
