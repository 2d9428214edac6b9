// Codecs of the library, and stripes in memory of each kind, as the C++ door takes them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ec/codec.hpp"
#include "ec/ec.h"
#include "tests/common/arena.hpp"
#include "tests/common/stripes.hpp"

namespace ec::test {

constexpr std::string_view technique_name(Technique technique) {
  return technique == Technique::cauchy ? "cauchy" : "reed_sol_van";
}

/// Whether a call succeeds; a failure shows the error's sentence.
inline testing::AssertionResult succeeds(const Error& error) {
  return (error ? testing::AssertionFailure() : testing::AssertionSuccess()) << error.text();
}
inline testing::AssertionResult succeeds(int answer) {
  return answer != 0 ? testing::AssertionFailure() << ec_error_text() : testing::AssertionSuccess();
}

/// The codec, or a failed test.
inline Codec made(unsigned k, unsigned m, Technique technique = Technique::reed_sol_van) {
  return std::move(Codec::create(k, m, technique)).value();
}
using CodecPointer = std::unique_ptr<ec_codec, decltype(&ec_codec_destroy)>;
inline CodecPointer created(unsigned k, unsigned m, ec_technique technique) {
  ec_codec* codec = nullptr;
  EXPECT_TRUE(succeeds(ec_codec_create(k, m, technique, &codec)));
  return {codec, &ec_codec_destroy};
}

/// Makes coding chunks anew that were scrambled, or lost ones.
inline Error encode_anew(const Codec& codec, StripeSet& stripes) {
  const auto coding = stripes.coding_numbers();
  stripes.scramble(coding);
  return codec.encode(stripes.views<Source>(stripes.data_numbers()), stripes.views<Target>(coding));
}
inline Error decode_anew(const Codec& codec, StripeSet& stripes, const std::vector<unsigned>& available,
                         const std::vector<unsigned>& lost) {
  stripes.scramble(lost);
  return codec.decode(available, stripes.views<Source>(available), lost, stripes.views<Target>(lost));
}

/// Codes what is lost out of `available`, and the rest of these stripes, as the oracle does.
inline void expect_codes(const Codec& codec, StripeSet stripes, const std::vector<unsigned>& available,
                         const std::vector<unsigned>& lost) {
  ASSERT_TRUE(succeeds(encode_anew(codec, stripes)));
  ASSERT_EQ(stripes.chunks, stripes.intact);
  ASSERT_TRUE(succeeds(decode_anew(codec, stripes, available, lost)));
  ASSERT_EQ(stripes.chunks, stripes.intact);

  const unsigned last = codec.k() - 1;
  const auto coding = stripes.coding_numbers();
  stripes.expect_cleared(last);
  ASSERT_TRUE(succeeds(codec.update(last, stripes.views<Source>({last}), stripes.views<Target>(coding))));
  ASSERT_EQ(stripes.chunks, stripes.intact);
}

/// The chunks of one call of each kind, right until a case spoils them: 4+2, 2 stripes, 64 bytes.
template <class Source, class Target>
struct CallChunks {
  StripeSet stripes{"cauchy", 4, 2, 2, 64, 5};
  std::vector<unsigned> available{0, 2, 3, 4}, wanted{1, 5};
  std::vector<Source> data = stripes.views<Source>({0, 1, 2, 3});
  std::vector<Target> coding = stripes.views<Target>({4, 5});
  std::vector<Source> sources = stripes.views<Source>({0, 2, 3, 4});
  std::vector<Target> targets = stripes.views<Target>({1, 5});
  std::vector<Source> delta = stripes.views<Source>({2});
  unsigned chunk = 2;
};

/// The rows of a coding matrix.
inline oracle::Rows rows_of(const std::vector<std::uint8_t>& cells, unsigned k) {
  oracle::Rows rows;
  for (std::size_t at = 0; at < cells.size(); at += k) rows.emplace_back(&cells[at], &cells[at] + k);
  return rows;
}
/// Chunks 0, 1 with their sum 4, chunks 2, 3 with theirs 5, and 6 over all: a locally repairable code.
inline const std::vector<std::uint8_t> local_code{1, 1, 0, 0, 0, 0, 1, 1, 1, 2, 4, 8};

/// Views of the C interface. View: ec_source, ec_target.
template <class View, class Chunk>
std::vector<View> plain(const std::vector<Chunk>& chunks) {
  std::vector<View> all;
  for (const Chunk& c : chunks)
    all.push_back({reinterpret_cast<decltype(View::data)>(c.bytes.data()), static_cast<int>(c.residence)});
  return all;
}

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

/// In memory of that kind, where the machine has some. Instantiated in device_test.cpp.
class EveryResidence : public testing::TestWithParam<kernels::Residence> {
 protected:
  void SetUp() override {
    arena_ = arena_of(GetParam());
    if (arena_ == nullptr) GTEST_SKIP() << "no " << name(GetParam()) << " memory here";
  }
  Arena* arena_ = nullptr;
};

/// In device memory, on the default stream, which reading that memory back waits for.
class OnAStream : public testing::Test {
 protected:
  void SetUp() override {
    if (arena_ == nullptr) GTEST_SKIP() << "no device memory here";
  }
  Arena* const arena_ = arena_of(kernels::Residence::device);
};

}  // namespace ec::test
