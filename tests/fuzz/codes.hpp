// Codes behind a door of Ceph's, their stripes as they must be, and bufferlists in any pieces.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ceph/classic.h"
#include "rados/buffer.h"
#include "tests/common/oracle.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace ec::fuzz {

namespace oracle = test::oracle;

template <class Door>
struct CodeBehind {
  CodeBehind(std::string_view technique, unsigned data, unsigned coding, const std::string& mapping)
      : k(data), m(coding), rows(oracle::coding_matrix(technique, data, coding)) {
    ::ceph::ErasureCodeProfile profile{{"technique", std::string(technique)},
                                       {"k", std::to_string(k)},
                                       {"m", std::to_string(m)},
                                       {"mapping", mapping}};
    if (ours.init(profile, nullptr) != 0) std::abort();
    for (const bool want_data : {true, false})
      for (unsigned shard = 0; shard < k + m; ++shard)
        if ((mapping.empty() ? shard < k : mapping[shard] == 'D') == want_data)
          shards.push_back(static_cast<int>(shard));
  }

  unsigned k, m;
  oracle::Rows rows;
  std::vector<int> shards;  ///< of each chunk, data first
  mutable Door ours;
};

template <class Door>
const CodeBehind<Door>& draw_code(Input& input) {
  static const std::vector<std::unique_ptr<const CodeBehind<Door>>> codes = [] {
    std::vector<std::unique_ptr<const CodeBehind<Door>>> list;
    const auto add = [&](const char* technique, unsigned k, unsigned m, const char* mapping = "") {
      list.push_back(std::make_unique<const CodeBehind<Door>>(technique, k, m, mapping));
    };
    add("reed_sol_van", 4, 2);
    add("cauchy", 3, 3);
    add("cauchy", 2, 1);
    add("reed_sol_van", 8, 3);
    add("cauchy", 5, 4, "_DD_D_DD_");
    add("reed_sol_van", 2, 2, "__DD");
    add("cauchy", 10, 4);
    return list;
  }();
  return *codes[input.ConsumeIntegralInRange<std::size_t>(0, codes.size() - 1)];
}

/// A stripe as it must be: bytes of every shard.
template <class Door>
std::map<int, std::string> stripe(const CodeBehind<Door>& code, const std::string& object) {
  const std::size_t bytes = ((object.size() + code.k - 1) / code.k + 31) / 32 * 32;
  std::vector<oracle::Bytes> data;
  for (unsigned c = 0; c < code.k; ++c) {
    oracle::Bytes chunk(bytes);
    for (std::size_t i = 0; i < bytes && c * bytes + i < object.size(); ++i)
      chunk[i] = static_cast<std::uint8_t>(object[c * bytes + i]);
    data.push_back(std::move(chunk));
  }
  std::map<int, std::string> all;
  auto coding = oracle::apply(code.rows, data);
  for (unsigned c = 0; c < code.k + code.m; ++c) {
    const auto& chunk = c < code.k ? data[c] : coding[c - code.k];
    all[code.shards[c]] = std::string(chunk.begin(), chunk.end());
  }
  return all;
}

/// `bytes` of content that differs by `seed`.
inline std::string content(std::size_t bytes, std::uint8_t seed) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i)
    text[i] = static_cast<char>(seed += static_cast<std::uint8_t>(i * 37 + 11));
  return text;
}

/// `text` in up to nine pieces, empty ones among them; each is a part of a larger buffer.
inline ::ceph::bufferlist in_pieces(Input& input, std::string_view text) {
  ::ceph::bufferlist list;
  for (unsigned cuts = input.ConsumeIntegralInRange(0u, 8u);; --cuts) {
    const auto size = static_cast<unsigned>(
        cuts == 0 ? text.size() : input.ConsumeIntegralInRange<std::size_t>(0, text.size()));
    const unsigned before = input.ConsumeIntegralInRange(0u, 20u);
    ::ceph::bufferptr buffer(::ceph::buffer::create(before + size + 3));
    std::copy_n(text.data(), size, buffer.c_str() + before);
    list.push_back(::ceph::bufferptr(buffer, before, size));
    text.remove_prefix(size);
    if (cuts == 0) return list;
  }
}

}  // namespace ec::fuzz
