// The test vectors: what they hold, made from the oracle alone.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/common/oracle.hpp"

namespace ec::test {

/// Data chunk `chunk` of a vector: byte i is (31 i + 17 chunk + floor(i / 251)) mod 256.
oracle::Bytes vector_data(unsigned chunk, std::size_t bytes);

std::string to_hex(const oracle::Bytes& bytes);

/// The whole document, as it is committed in vectors.json.
nlohmann::json make_vectors();

}  // namespace ec::test
