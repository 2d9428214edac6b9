// Every pattern of 1..m lost chunks of every code of up to 16 chunks, encode and a random signature of every
// cauchy code of up to 64 with up to 16 coding chunks, and 10^4 random signatures of up to 255, recovered as
// the plugin does it: by the decode plan of the signature, on each back end. The stripe is the oracle's. On a
// device and under sanitizers, which take minutes for it, up to 11 chunks and 200 signatures unless
// EC_TEST_EXHAUSTIVE=1. Each test prints how many patterns it recovered.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "gf/decode_plan.hpp"
#include "gf/generator.hpp"
#include "tests/common/stripes.hpp"
#include "tests/kernels/backend_suite.hpp"

namespace ec::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

bool exhaustive(const kernels::Backend& backend) {
  const char* text = std::getenv("EC_TEST_EXHAUSTIVE");
  if (text != nullptr && std::string_view(text) == "1") return true;
  return !sanitized && !is_device(backend);
}

constexpr std::size_t chunk_bytes = 67;

/// One stripe of one code, in the memory of the test, and room for m chunks.
class Stripe {
 public:
  Stripe(Arena& arena, gf::Technique technique, unsigned k, unsigned m, std::uint64_t seed)
      : coding_(gf::coding_matrix(technique, k, m)),
        expected_(std::move(StripeSet(gf::name(technique), k, m, 1, chunk_bytes, seed).intact[0])) {
    for (const auto& chunk : expected_) chunks_.emplace_back(arena, chunk, 0u);
    for (unsigned i = 0; i < m; ++i) made_.emplace_back(arena, expected_[k], 0u);
  }

  /// Makes the wanted chunks; false if the back end gives others.
  bool recovers(kernels::Backend& backend, const gf::ErasureSignature& signature, kernels::Status* status) {
    const auto plan = gf::make_decode_plan(coding_, signature);
    if (!plan) return false;
    std::vector<kernels::Source> sources;
    std::vector<kernels::Target> targets;
    for (const auto c : plan->sources) sources.push_back(chunks_[c].source());
    for (std::size_t i = 0; i < plan->targets.size(); ++i) {
      made_[i].scramble();
      targets.push_back(made_[i].target());
    }
    const kernels::Program program(plan->matrix, {plan->sources, plan->targets});
    *status = backend.transform({&program, sources, targets, chunk_bytes});
    for (std::size_t i = 0; i < targets.size() && *status == kernels::Status::ok; ++i)
      if (!made_[i].holds(expected_[plan->targets[i]])) return false;
    return true;
  }

  bool intact() const {
    return std::ranges::equal(chunks_, expected_, [](const auto& c, const auto& e) { return c.holds(e); });
  }

 private:
  gf::Matrix coding_;
  std::vector<oracle::Bytes> expected_;
  std::vector<GuardedChunk> chunks_, made_;
};

class Patterns : public BackendTest {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!is_device(backend()) && arena().residence() == kernels::Residence::device)
      GTEST_SKIP() << "a back end of the CPU declines device memory, as conformance_test shows";
  }
  void TearDown() override {
    if (recovered_ == 0 && declined_ == 0) return;  // skipped before it began
    if (recovered_ == 0 && !HasFailure())
      GTEST_SKIP() << "the back end declines all " << declined_ << " jobs";
    fmt::print("{} in {} memory: {} patterns of {} codes\n", backend().name(),
               kernels::name(arena().residence()), recovered_, codes_);
  }

  void recover(Stripe& stripe, const gf::ErasureSignature& signature, const std::string& what) {
    kernels::Status status = kernels::Status::ok;
    ASSERT_TRUE(stripe.recovers(backend(), signature, &status)) << what;
    if (status == kernels::Status::unsupported) {
      ++declined_;
    } else {
      ASSERT_EQ(status, kernels::Status::ok) << what;
      ++recovered_;
    }
  }

  void every_pattern(gf::Technique technique, unsigned k, unsigned m) {
    Stripe stripe(arena(), technique, k, m, k * 256 + m);
    ++codes_;
    const unsigned n = k + m;
    for (unsigned lost = 1; lost < 1u << n; ++lost) {
      if (static_cast<unsigned>(std::popcount(lost)) > m) continue;
      gf::ErasureSignature signature;
      for (unsigned c = 0; c < n; ++c) (lost >> c & 1 ? signature.wanted : signature.available).insert(c);
      recover(stripe, signature, fmt::format("{} {}+{}, lost {:#x}", gf::name(technique), k, m, lost));
      if (HasFatalFailure()) return;
    }
    ASSERT_TRUE(stripe.intact()) << k << "+" << m;
  }

  void every_pattern_of_small_codes(gf::Technique technique) {
    for (const auto [k, m] : small_shapes(gf::name(technique), exhaustive(backend()) ? 16 : 11))
      if (!HasFatalFailure()) every_pattern(technique, k, m);
  }

  /// Up to `most` chunks are lost; not all of them need be wanted.
  static gf::ErasureSignature random_signature(Random& random, unsigned n, unsigned most) {
    gf::ErasureSignature signature{gf::ChunkSet::first(n), {}};
    for (unsigned lost = 1 + random.below(most); signature.available.count() > n - lost;)
      signature.available.erase(random.below(n));
    for (unsigned c = 0; c < n; ++c)
      if (!signature.available.contains(c) && (signature.wanted.empty() || random.below(4) != 0))
        signature.wanted.insert(c);
    return signature;
  }

  std::size_t recovered_ = 0, declined_ = 0, codes_ = 0;
};

TEST_P(Patterns, EveryOneOfReedSolVan) { every_pattern_of_small_codes(gf::Technique::reed_sol_van); }

TEST_P(Patterns, EveryOneOfCauchy) { every_pattern_of_small_codes(gf::Technique::cauchy); }

/// Wide ones are not coded by their matrix everywhere.
TEST_P(Patterns, EveryCauchyShape) {
  const unsigned most = exhaustive(backend()) ? 64 : 24;
  Random random(64);
  for (unsigned m = 1; m <= 16; ++m)
    for (unsigned k = 2; k + m <= most; ++k) {
      Stripe stripe(arena(), gf::Technique::cauchy, k, m, k * 256 + m);
      ++codes_;
      const auto data = gf::ChunkSet::first(k);
      recover(stripe, {data, gf::ChunkSet::first(k + m) - data}, fmt::format("encode {}+{}", k, m));
      recover(stripe, random_signature(random, k + m, m), fmt::format("{}+{}", k, m));
      if (HasFatalFailure()) return;
    }
}

TEST_P(Patterns, RandomOnesOfWideCodes) {
  constexpr unsigned each = 10;
  Random random(128);
  for (unsigned i = 0; i < (exhaustive(backend()) ? 1000u : 20u); ++i) {
    const unsigned n = 17 + random.below(239);
    const auto technique = i % 2 == 0 ? gf::Technique::cauchy : gf::Technique::reed_sol_van;
    // The Vandermonde is safe for few coding chunks only.
    const unsigned most = n > 128 ? 32 : n - 2;  // The reference takes its time.
    const unsigned m = technique == gf::Technique::cauchy ? 1 + random.below(most) : 1 + random.below(3);
    Stripe stripe(arena(), technique, n - m, m, i);
    ++codes_;
    for (unsigned draw = 0; draw < each; ++draw) {
      recover(stripe, random_signature(random, n, m),
              fmt::format("{} {}+{}, code {}, draw {}", gf::name(technique), n - m, m, i, draw));
      if (HasFatalFailure()) return;
    }
    ASSERT_TRUE(stripe.intact());
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Patterns, every_backend_and_memory(), param_name);

}  // namespace
}  // namespace ec::test
