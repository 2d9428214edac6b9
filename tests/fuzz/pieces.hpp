// Bufferlists in any pieces, for the targets that speak Ceph's.
#pragma once

#include <algorithm>
#include <string>

#include "rados/buffer.h"
#include "tests/fuzz/fuzz.hpp"

namespace ec::fuzz {

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

inline std::string flat(const ::ceph::bufferlist& list) {
  std::string text;
  for (const auto& piece : list.buffers()) text.append(piece.c_str(), piece.length());
  return text;
}

}  // namespace ec::fuzz
