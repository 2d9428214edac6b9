// The C interface: the same bytes, codes and texts, and what only C callers can get wrong. What both check is
// in bad_input_test.cpp.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>

#include "tests/plugin/library/placed.hpp"

namespace ec::test {
namespace {

TEST(CCodec, EncodesDecodesAndUpdatesAsTheOracle) {
  for (const auto technique : {Technique::reed_sol_van, Technique::cauchy})
    for (const std::size_t count : {std::size_t{1}, std::size_t{5}}) {
      const auto codec = created(4, 2, static_cast<ec_technique>(technique));
      EXPECT_EQ(ec_codec_k(codec.get()), 4u);
      EXPECT_EQ(ec_codec_m(codec.get()), 2u);
      StripeSet stripes(technique_name(technique), 4, 2, count, 777, count);
      stripes.scramble({4, 5});
      ASSERT_TRUE(succeeds(ec_encode(codec.get(), count, stripes.views<ec_source>({0, 1, 2, 3}).data(),
                                     stripes.views<ec_target>({4, 5}).data(), 777)));
      EXPECT_EQ(stripes.chunks, stripes.intact);

      stripes.scramble({1, 4});
      const unsigned available[] = {5, 0, 3, 2}, wanted[] = {4, 1};
      ASSERT_TRUE(
          succeeds(ec_decode(codec.get(), count, available, 4, stripes.views<ec_source>({5, 0, 3, 2}).data(),
                             wanted, 2, stripes.views<ec_target>({4, 1}).data(), 777)));
      EXPECT_EQ(stripes.chunks, stripes.intact);

      stripes.expect_cleared(3);
      ASSERT_TRUE(succeeds(ec_update(codec.get(), count, 3, stripes.views<ec_source>({3}).data(),
                                     stripes.views<ec_target>({4, 5}).data(), 777)));
      EXPECT_EQ(stripes.chunks, stripes.intact);
    }
}

TEST(CCodec, NothingToDoIsNoError) {
  const auto codec = created(4, 2, EC_CAUCHY);
  EXPECT_EQ(ec_encode(codec.get(), 0, nullptr, nullptr, 64), 0);
  const ec_source data[4] = {};
  const ec_target coding[2] = {};
  EXPECT_EQ(ec_encode(codec.get(), 1, data, coding, 0), 0);
  const ec_source on_device[6] = {{nullptr, EC_DEVICE}};
  const unsigned all[] = {0, 1, 2, 3, 4, 5};
  ec_verdict verdict{};
  EXPECT_TRUE(succeeds(ec_encode(codec.get(), 1, on_device, coding, 0)));
  EXPECT_TRUE(succeeds(ec_verify(codec.get(), 1, all, 6, on_device, 0, &verdict)));
  EXPECT_TRUE(succeeds(ec_encode_async(codec.get(), 0, nullptr, nullptr, 64, nullptr)));
  const unsigned available[] = {0, 1, 2, 3};
  EXPECT_EQ(ec_decode(codec.get(), 1, available, 4, data, nullptr, 0, nullptr, 0), 0);
  ec_codec_destroy(nullptr);
  EXPECT_EQ(ec_codec_k(nullptr) + ec_codec_m(nullptr), 0u);
}

TEST(CCodec, RefusesWhatIsNoCodeAndLeavesNull) {
  for (const auto& [k, technique, text] :
       {std::tuple(1u, int{EC_CAUCHY}, "k=1 must be at least 2"),
        {4u, 2, "technique=2; allowed are 0 (reed_sol_van), 1 (cauchy)"},
        {4u, 257, "technique=257; allowed are 0 (reed_sol_van), 1 (cauchy)"},
        {4u, -1, "technique=-1; allowed are 0 (reed_sol_van), 1 (cauchy)"}}) {
    auto* codec = reinterpret_cast<ec_codec*>(&ec_codec_create);
    EXPECT_EQ(ec_codec_create(k, 2, technique, &codec), -EINVAL);
    EXPECT_STREQ(ec_error_text(), text);
    EXPECT_EQ(codec, nullptr);
  }
  EXPECT_EQ(ec_codec_create(4, 2, EC_CAUCHY, nullptr), -EINVAL);
  EXPECT_STREQ(ec_error_text(), "codec is null");
}

struct Arguments : CallChunks<ec_source, ec_target> {
  CodecPointer codec = created(4, 2, EC_CAUCHY);
  std::size_t count = 2, available_count = 4, wanted_count = 2, bytes = 64;
};

/// The list is a null pointer when it is an argument.
void make_null(auto& list) { list = std::decay_t<decltype(list)>(); }

int encode(const Arguments& c) {
  return ec_encode(c.codec.get(), c.count, c.data.data(), c.coding.data(), c.bytes);
}
int decode(const Arguments& c) {
  return ec_decode(c.codec.get(), c.count, c.available.data(), c.available_count, c.sources.data(),
                   c.wanted.data(), c.wanted_count, c.targets.data(), c.bytes);
}
int update(const Arguments& c) {
  return ec_update(c.codec.get(), c.count, c.chunk, c.delta.data(), c.coding.data(), c.bytes);
}

struct BadArguments {
  const char* text;
  int (*verb)(const Arguments&);
  std::function<void(Arguments&)> spoil;
  int code = -EINVAL;
};

const BadArguments bad_arguments[] = {
    {"codec is null", encode, [](Arguments& c) { c.codec.reset(); }},
    {"codec is null", decode, [](Arguments& c) { c.codec.reset(); }},
    {"codec is null", update, [](Arguments& c) { c.codec.reset(); }},
    {"data is null", encode, [](Arguments& c) { make_null(c.data); }},
    {"coding is null", encode, [](Arguments& c) { make_null(c.coding); }},
    {"available is null", decode, [](Arguments& c) { make_null(c.available); }},
    {"wanted is null", decode, [](Arguments& c) { make_null(c.wanted); }},
    {"sources is null", decode, [](Arguments& c) { make_null(c.sources); }},
    {"targets is null", decode, [](Arguments& c) { make_null(c.targets); }},
    {"delta is null", update, [](Arguments& c) { make_null(c.delta); }},
    {"coding is null", update, [](Arguments& c) { make_null(c.coding); }},
    {"coding[3] has residence -1; allowed are 0 (pageable), 1 (pinned), 2 (device)", encode,
     [](Arguments& c) { c.coding[3].residence = -1; }},
    {"data[0] has residence 258; allowed are 0 (pageable), 1 (pinned), 2 (device)", encode,
     [](Arguments& c) { c.data[0].residence = 258; }},
    {"stripes=18446744073709551615 are more than memory can hold", encode,
     [](Arguments& c) { c.count = SIZE_MAX; }},
    {"chunks of 9223372036854775808 bytes; they must have at most 9223372036854775807", encode,
     [](Arguments& c) { c.bytes = SIZE_MAX / 2 + 1; }},
    {"available_count=7; there are 6 chunks", decode, [](Arguments& c) { c.available_count = 7; }},
    {"wanted_count=18446744073709551615; there are 6 chunks", decode,
     [](Arguments& c) { c.wanted_count = SIZE_MAX; }},
    {"available has 3 chunks; k=4 are needed", decode, [](Arguments& c) { c.available_count = 3; }, -ENODATA},
};

TEST(CBadCall, IsRefusedByNameBeforeAByteIsWritten) {
  for (const auto& bad : bad_arguments) {
    Arguments call;
    call.stripes.scramble({1, 4, 5});
    const auto before = call.stripes.chunks;
    bad.spoil(call);
    EXPECT_EQ(bad.verb(call), bad.code) << bad.text;
    EXPECT_STREQ(ec_error_text(), bad.text);
    EXPECT_EQ(call.stripes.chunks, before) << bad.text;
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

}  // namespace
}  // namespace ec::test
