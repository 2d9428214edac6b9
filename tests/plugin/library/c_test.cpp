// The C door: the same bytes, codes and texts, and what only C callers can get wrong.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "tests/plugin/library/stripes.hpp"

namespace ec::test {
namespace {

using CodecPointer = std::unique_ptr<ec_codec, decltype(&ec_codec_destroy)>;

CodecPointer created(unsigned k, unsigned m, ec_technique technique) {
  ec_codec* codec = nullptr;
  EXPECT_EQ(ec_codec_create(k, m, technique, &codec), 0) << ec_error_text();
  return {codec, &ec_codec_destroy};
}

TEST(CCodec, EncodesDecodesAndUpdatesAsTheOracle) {
  const auto codec = created(4, 2, EC_CAUCHY);
  EXPECT_EQ(ec_codec_k(codec.get()), 4u);
  EXPECT_EQ(ec_codec_m(codec.get()), 2u);
  for (const std::size_t count : {std::size_t{1}, std::size_t{5}}) {
    StripeSet stripes(Technique::cauchy, 4, 2, count, 777, count);
    stripes.scramble({4, 5});
    ASSERT_EQ(ec_encode(codec.get(), count, stripes.views<ec_source>({0, 1, 2, 3}).data(),
                        stripes.views<ec_target>({4, 5}).data(), 777),
              0)
        << ec_error_text();
    EXPECT_EQ(stripes.chunks, stripes.intact);

    stripes.scramble({1, 4});
    const unsigned available[] = {5, 0, 3, 2}, wanted[] = {4, 1};
    ASSERT_EQ(ec_decode(codec.get(), count, available, 4, stripes.views<ec_source>({5, 0, 3, 2}).data(),
                        wanted, 2, stripes.views<ec_target>({4, 1}).data(), 777),
              0)
        << ec_error_text();
    EXPECT_EQ(stripes.chunks, stripes.intact);

    // Data chunk 3 becomes zeros: its delta is its old content.
    for (std::size_t i = 0; i < count; ++i) {
      auto data = std::vector(stripes.intact[i].begin(), stripes.intact[i].begin() + 4);
      data[3].assign(777, 0);
      stripes.intact[i] = stripes.coded(data);
    }
    ASSERT_EQ(ec_update(codec.get(), count, 3, stripes.views<ec_source>({3}).data(),
                        stripes.views<ec_target>({4, 5}).data(), 777),
              0)
        << ec_error_text();
    for (auto& stripe : stripes.chunks) stripe[3].assign(777, 0);
    EXPECT_EQ(stripes.chunks, stripes.intact);
  }
}

TEST(CCodec, ReedSolVanIsAnotherCodeThanCauchy) {
  const auto codec = created(8, 3, EC_REED_SOL_VAN);
  StripeSet stripes(Technique::reed_sol_van, 8, 3, 1, 100, 1);
  stripes.scramble({8, 9, 10});
  ASSERT_EQ(ec_encode(codec.get(), 1, stripes.views<ec_source>(stripes.data_numbers()).data(),
                      stripes.views<ec_target>(stripes.coding_numbers()).data(), 100),
            0);
  EXPECT_EQ(stripes.chunks, stripes.intact);
}

TEST(CCodec, NothingToDoIsNoError) {
  const auto codec = created(4, 2, EC_CAUCHY);
  EXPECT_EQ(ec_encode(codec.get(), 0, nullptr, nullptr, 64), 0);
  const ec_source data[4] = {};
  const ec_target coding[2] = {};
  EXPECT_EQ(ec_encode(codec.get(), 1, data, coding, 0), 0);
  const unsigned available[] = {0, 1, 2, 3};
  EXPECT_EQ(ec_decode(codec.get(), 1, available, 4, data, nullptr, 0, nullptr, 0), 0);
  ec_codec_destroy(nullptr);
  EXPECT_EQ(ec_codec_k(nullptr) + ec_codec_m(nullptr), 0u);
}

TEST(CCodec, RefusesBadShapesAndLeavesNull) {
  struct Case {
    unsigned k, m;
    ec_technique technique;
    const char* text;
  };
  const Case cases[] = {{1, 2, EC_CAUCHY, "k=1 must be at least 2"},
                        {4, 2, 2, "technique=2; allowed are 0 (reed_sol_van), 1 (cauchy)"},
                        {4, 2, -1, "technique=-1; allowed are 0 (reed_sol_van), 1 (cauchy)"}};
  for (const auto& c : cases) {
    auto* codec = reinterpret_cast<ec_codec*>(&ec_codec_create);
    EXPECT_EQ(ec_codec_create(c.k, c.m, c.technique, &codec), -EINVAL);
    EXPECT_STREQ(ec_error_text(), c.text);
    EXPECT_EQ(codec, nullptr);
  }
  EXPECT_EQ(ec_codec_create(4, 2, EC_CAUCHY, nullptr), -EINVAL);
  EXPECT_STREQ(ec_error_text(), "codec is null");
}

/// The arguments of one call of each kind, right until a case spoils them: 4+2, 2 stripes, 64 bytes.
struct Call {
  StripeSet stripes{Technique::cauchy, 4, 2, 2, 64, 5};
  CodecPointer owned = created(4, 2, EC_CAUCHY);
  const ec_codec* codec = owned.get();
  std::size_t count = 2;
  std::vector<unsigned> available_list{0, 2, 3, 4}, wanted_list{1, 5};
  std::vector<ec_source> data_list = stripes.views<ec_source>({0, 1, 2, 3});
  std::vector<ec_target> coding_list = stripes.views<ec_target>({4, 5});
  std::vector<ec_source> sources_list = stripes.views<ec_source>({0, 2, 3, 4});
  std::vector<ec_target> targets_list = stripes.views<ec_target>({1, 5});
  std::vector<ec_source> delta_list = stripes.views<ec_source>({2});
  const unsigned* available = available_list.data();
  const unsigned* wanted = wanted_list.data();
  std::size_t available_count = 4, wanted_count = 2, bytes = 64;
  const ec_source* data = data_list.data();
  const ec_target* coding = coding_list.data();
  const ec_source* sources = sources_list.data();
  const ec_target* targets = targets_list.data();
  const ec_source* delta = delta_list.data();
  unsigned chunk = 2;
};

int encode(const Call& c) { return ec_encode(c.codec, c.count, c.data, c.coding, c.bytes); }
int decode(const Call& c) {
  return ec_decode(c.codec, c.count, c.available, c.available_count, c.sources, c.wanted, c.wanted_count,
                   c.targets, c.bytes);
}
int update(const Call& c) { return ec_update(c.codec, c.count, c.chunk, c.delta, c.coding, c.bytes); }

struct BadCall {
  const char* text;
  int (*verb)(const Call&);
  std::function<void(Call&)> spoil;
  int code = -EINVAL;
};

const BadCall bad_calls[] = {
    {"codec is null", encode, [](Call& c) { c.codec = nullptr; }},
    {"codec is null", decode, [](Call& c) { c.codec = nullptr; }},
    {"codec is null", update, [](Call& c) { c.codec = nullptr; }},
    {"data is null", encode, [](Call& c) { c.data = nullptr; }},
    {"coding is null", encode, [](Call& c) { c.coding = nullptr; }},
    {"available is null", decode, [](Call& c) { c.available = nullptr; }},
    {"wanted is null", decode, [](Call& c) { c.wanted = nullptr; }},
    {"sources is null", decode, [](Call& c) { c.sources = nullptr; }},
    {"targets is null", decode, [](Call& c) { c.targets = nullptr; }},
    {"delta is null", update, [](Call& c) { c.delta = nullptr; }},
    {"coding is null", update, [](Call& c) { c.coding = nullptr; }},
    {"data[2] is null and should hold a chunk of 64 bytes", encode,
     [](Call& c) { c.data_list[2].data = nullptr; }},
    {"coding[3] has residence -1; allowed are 0 (pageable), 1 (pinned), 2 (device)", encode,
     [](Call& c) { c.coding_list[3].residence = -1; }},
    {"data[0] has residence 258; allowed are 0 (pageable), 1 (pinned), 2 (device)", encode,
     [](Call& c) { c.data_list[0].residence = 258; }},
    {"coding[1] overlaps data[3]; a target must overlap no other chunk of its stripe", encode,
     [](Call& c) { c.coding_list[1].data = c.stripes.chunks[0][3].data() + 63; }},
    {"stripes=18446744073709551615 are more than memory can hold", encode,
     [](Call& c) { c.count = SIZE_MAX; }},
    {"chunks of 9223372036854775808 bytes; they must have at most 9223372036854775807", encode,
     [](Call& c) { c.bytes = SIZE_MAX / 2 + 1; }},
    {"available_count=7; there are 6 chunks", decode, [](Call& c) { c.available_count = 7; }},
    {"wanted_count=18446744073709551615; there are 6 chunks", decode,
     [](Call& c) { c.wanted_count = SIZE_MAX; }},
    {"available has 3 chunks; k=4 are needed", decode, [](Call& c) { c.available_count = 3; }, -ENODATA},
    {"wanted[0]=2 is available[1]; only chunks that are not can be wanted", decode,
     [](Call& c) { c.wanted_list[0] = 2; }},
    {"chunk=4 must be a data chunk, 0 to 3", update, [](Call& c) { c.chunk = 4; }},
};

TEST(CBadCall, IsRefusedByNameBeforeAByteIsWritten) {
  for (const auto& bad : bad_calls) {
    Call call;
    call.stripes.scramble({1, 4, 5});
    const auto before = call.stripes.chunks;
    bad.spoil(call);
    EXPECT_EQ(bad.verb(call), bad.code) << bad.text;
    EXPECT_STREQ(ec_error_text(), bad.text);
    EXPECT_EQ(call.stripes.chunks, before) << bad.text;
  }
}

TEST(CBadCall, IsTheOnlyThingRefused) {
  for (const auto verb : {encode, decode, update}) {
    const Call call;
    EXPECT_EQ(verb(call), 0) << ec_error_text();
  }
}

TEST(CErrorText, BelongsToTheThread) {
  ec_codec* codec = nullptr;
  ASSERT_EQ(ec_codec_create(1, 1, EC_CAUCHY, &codec), -EINVAL);
  std::string other = "?";
  std::thread([&] { other = ec_error_text(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_STREQ(ec_error_text(), "k=1 must be at least 2");
  // A call that succeeds leaves it.
  EXPECT_NE(created(2, 1, EC_CAUCHY), nullptr);
  EXPECT_STREQ(ec_error_text(), "k=1 must be at least 2");
}

TEST(CVersion, IsThatOfTheProject) { EXPECT_STREQ(ec_version(), ECCODER_VERSION); }

}  // namespace
}  // namespace ec::test
