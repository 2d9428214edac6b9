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

using Contents = std::map<int, std::string>;  ///< by shard

/// What this data makes of each coding shard; data that is not there is zero.
template <class Door>
Contents coding_of(const CodeBehind<Door>& code, const Contents& data, std::size_t bytes) {
  std::vector<oracle::Bytes> chunks(code.k, oracle::Bytes(bytes));
  for (unsigned d = 0; d < code.k; ++d)
    if (const auto at = data.find(code.shards[d]); at != data.end())
      chunks[d].assign(at->second.begin(), at->second.end());
  const auto made = oracle::apply(code.rows, chunks);
  Contents coding;
  for (unsigned r = 0; r < code.m; ++r) coding[code.shards[code.k + r]] = {made[r].begin(), made[r].end()};
  return coding;
}

/// A stripe as it must be: bytes of every shard.
template <class Door>
Contents stripe(const CodeBehind<Door>& code, std::string object) {
  const std::size_t bytes = ((object.size() + code.k - 1) / code.k + 31) / 32 * 32;
  object.resize(code.k * bytes);
  Contents all;
  for (unsigned d = 0; d < code.k; ++d) all[code.shards[d]] = object.substr(d * bytes, bytes);
  all.merge(coding_of(code, all, bytes));
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
