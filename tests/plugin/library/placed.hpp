// Stripes in pinned or device memory, as the C++ door takes them.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/common/arena.hpp"
#include "tests/plugin/library/stripes.hpp"

namespace ec::test {

/// The chunks of a StripeSet in other memory. [stripe][chunk]
class Placed {
 public:
  Placed(const StripeSet& stripes, Arena& arena) : residence_(static_cast<Residence>(arena.residence())) {
    for (const auto& stripe : stripes.chunks) {
      auto& row = chunks_.emplace_back();
      for (const auto& chunk : stripe) row.emplace_back(arena, chunk, 0u);
    }
  }
  std::vector<Target> targets(const std::vector<unsigned>& which) const {
    std::vector<Target> all;
    for (const auto& stripe : chunks_)
      for (const unsigned c : which)
        all.emplace_back(stripe[c].data(), stripe[c].inspect().content.size(), residence_);
    return all;
  }
  std::vector<Source> sources(const std::vector<unsigned>& which) const {
    const auto all = targets(which);
    return {all.begin(), all.end()};
  }
  std::vector<std::vector<oracle::Bytes>> content() const {
    std::vector<std::vector<oracle::Bytes>> all;
    for (const auto& stripe : chunks_) {
      auto& row = all.emplace_back();
      for (const auto& chunk : stripe) {
        auto [content, guards_intact] = chunk.inspect();
        EXPECT_TRUE(guards_intact);
        row.push_back(std::move(content));
      }
    }
    return all;
  }

 private:
  Residence residence_;
  std::vector<std::vector<GuardedChunk>> chunks_;
};

}  // namespace ec::test
