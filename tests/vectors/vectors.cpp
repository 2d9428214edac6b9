// Makes the document of the test vectors.
#include "tests/vectors/vectors.hpp"

#include <fmt/format.h>

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
  };
  return all;
}

}  // namespace

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

nlohmann::json make_vectors() {
  nlohmann::json document;
  document["format"] = 1;
  document["field"] = "GF(2^8), polynomial 0x11d; a byte is an element, its lowest bit the constant term";
  document["data"] = "byte i of data chunk c is (31 i + 17 c + floor(i / 251)) mod 256; c and i count from 0";
  document["coding"] = "hexadecimal, one string for each coding chunk, in order";
  document["techniques"] = {
      {"reed_sol_van", "coding chunk r = sum over c of (2^r)^c . data chunk c"},
      {"cauchy", "coding chunk r = sum over c of 1/((k + r) xor c) . data chunk c; the plain sum if m = 1"}};
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

}  // namespace ec::test
