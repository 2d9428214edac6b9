// Codecs by a matrix of the caller's: bytes beside the oracle, what is refused, and what cannot be made.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/plugin/library/placed.hpp"

namespace ec::test {
namespace {

constexpr const char* dialects[] = {"isal_reed_sol_van",       "isal_cauchy", "jerasure_reed_sol_van",
                                    "jerasure_reed_sol_r6_op", "zfec",        "klauspost",
                                    "klauspost_cauchy"};

TEST(Matrix, EncodesDecodesAndUpdatesInEveryDialect) {
  for (const auto* dialect : dialects)
    for (const auto& [k, m] : {std::pair(1u, 2u), {2, 1}, {4, 2}, {10, 2}, {8, 3}, {60, 4}}) {
      if (dialect == std::string("jerasure_reed_sol_r6_op") && m != 2) continue;
      if (dialect == std::string("isal_reed_sol_van") && k == 60) continue;
      SCOPED_TRACE(testing::Message() << dialect << " " << k << "+" << m);
      const auto cells = coding_matrix(dialect, k, m).value();
      const auto codec = Codec::create(k, m, cells).value();
      EXPECT_EQ(codec.technique(), Technique::matrix);
      EXPECT_EQ(codec.mds(), Mds::yes);
      ASSERT_NO_FATAL_FAILURE(
          expect_codes(codec, {rows_of(cells, k), 1, 501, k}, numbers(m, k + m), numbers(0, m)));
    }
}

TEST(Matrix, ThatIsNotMdsMakesWhatCanBeMade) {
  const auto codec = Codec::create(4, 3, local_code, MatrixKind::any).value();
  EXPECT_EQ(codec.mds(), Mds::no);
  StripeSet stripes(rows_of(local_code, 4), 1, 99, 2);
  // What is refused is not written.
  const auto decode = [&](const std::vector<unsigned>& available, const std::vector<unsigned>& lost) {
    auto error = decode_anew(codec, stripes, available, lost);
    if (error) stripes.scramble(lost);
    EXPECT_EQ(stripes.chunks, stripes.intact);
    return error;
  };
  unsigned made = 0;
  for (unsigned there = 1; there < 127; ++there) {
    std::vector<unsigned> available, lost, cannot;
    for (unsigned c = 0; c < 7; ++c) (there >> c & 1 ? available : lost).push_back(c);
    // Each lost chunk by itself, and all at once, which is made if each is.
    for (const unsigned c : lost)
      if (const auto error = decode(available, {c})) {
        ASSERT_EQ(error.code(), Errc::too_few_chunks);
        cannot.push_back(c);
      }
    made += static_cast<unsigned>(lost.size() - cannot.size());
    const auto error = decode(available, lost);
    ASSERT_EQ(error.text(), cannot.empty()
                                ? ""
                                : fmt::format("available does not give chunks {}, by this matrix, which is "
                                              "not MDS",
                                              fmt::join(cannot, ", ")));
  }
  EXPECT_EQ(made, 160u) << "of 441, counted by an independent program from the ranks of the rows";
}

TEST(Matrix, IsSampledWhereThereAreTooManyLosses) {
  EXPECT_EQ(Codec::create(200, 3, coding_matrix("isal_reed_sol_van", 200, 3).value()).value().mds(),
            Mds::sampled);
  EXPECT_EQ(Codec::create(4, 2).value().mds(), Mds::yes);
}

TEST(BadMatrix, IsRefusedByName) {
  const auto text = [](unsigned k, unsigned m, const std::vector<std::uint8_t>& cells) {
    const auto codec = Codec::create(k, m, cells);
    EXPECT_FALSE(codec);
    EXPECT_EQ(codec.error().code(), Errc::invalid_argument);
    return codec.error().text();
  };
  EXPECT_EQ(text(4, 3, {1, 2, 3}), "coding has 3 cells; k=4 and m=3 need 12");
  EXPECT_EQ(text(0, 3, {}), "k=0 and m=3: both must be at least 1");
  EXPECT_EQ(text(3, 0, {}), "k=3 and m=0: both must be at least 1");
  EXPECT_EQ(text(200, 56, std::vector<std::uint8_t>(200 * 56)), "k=200 and m=56: k+m must be at most 255");
  EXPECT_EQ(text(4, 3, local_code),
            "coding is not MDS: with chunks 0, 1, 4 lost the data cannot be made; EC_ANY_MATRIX and "
            "MatrixKind::any "
            "allow that");
  for (const auto& [dialect, k, m, why] :
       {std::tuple("zfec2", 4u, 2u,
                   "dialect=zfec2; allowed are isal_reed_sol_van, isal_cauchy, jerasure_reed_sol_van, "
                   "jerasure_reed_sol_r6_op, zfec, klauspost, klauspost_cauchy"),
        {"jerasure_reed_sol_r6_op", 4, 3, "m=3 must be 2 with dialect=jerasure_reed_sol_r6_op"},
        {"zfec", 0, 3, "k=0 and m=3: both must be at least 1"},
        {"zfec", ~0u, 2, "k=4294967295 and m=2: k+m must be at most 255"}}) {
    const auto made = coding_matrix(dialect, k, m);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().text(), why);
  }
}

TEST(CMatrix, IsThatOfTheCxxInterface) {
  std::vector<unsigned char> cells(12);
  ASSERT_EQ(ec_coding_matrix("klauspost", 4, 3, cells.data()), 0);
  EXPECT_EQ(cells, coding_matrix("klauspost", 4, 3).value());
  ec_codec* codec = nullptr;
  ASSERT_EQ(ec_codec_create_matrix(4, 3, cells.data(), 0, &codec), 0);
  EXPECT_EQ(ec_codec_k(codec) * 10 + ec_codec_m(codec), 43u);
  EXPECT_EQ(ec_codec_mds(codec), EC_MDS);
  ec_codec_destroy(codec);
  ASSERT_EQ(ec_codec_create_matrix(4, 3, local_code.data(), EC_ANY_MATRIX, &codec), 0);
  EXPECT_EQ(ec_codec_mds(codec), EC_NOT_MDS);
  ec_codec_destroy(codec);
  EXPECT_EQ(ec_codec_mds(nullptr), EC_NOT_MDS);

  codec = reinterpret_cast<ec_codec*>(&codec);
  EXPECT_EQ(ec_codec_create_matrix(4, 3, local_code.data(), 0, &codec), -EINVAL);
  EXPECT_EQ(codec, nullptr);
  const auto says = [](int result, const char* text) {
    EXPECT_EQ(result, -EINVAL);
    EXPECT_STREQ(ec_error_text(), text);
  };
  says(ec_codec_create_matrix(4, 3, local_code.data(), 2, &codec),
       "flags=2; allowed are 0, 1 (EC_ANY_MATRIX)");
  says(ec_codec_create_matrix(4, 3, nullptr, 0, &codec), "coding is null");
  says(ec_codec_create_matrix(4, 3, local_code.data(), 0, nullptr), "codec is null");
  says(ec_coding_matrix(nullptr, 4, 3, cells.data()), "dialect is null");
  says(ec_coding_matrix("zfec", 4, 3, nullptr), "coding is null");
}

}  // namespace
}  // namespace ec::test
