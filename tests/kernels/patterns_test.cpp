// Every pattern of 1..m lost chunks of every code of up to 16 chunks, encode and a random signature of every
// cauchy code of up to 64 with up to 16 coding chunks, and 10^4 random signatures of up to 255, recovered as
// the plugin does it: by the decode plan of the signature, on each back end. The stripe is the oracle's. On a
// device and under sanitizers, which take minutes for it, up to 11 chunks and 200 signatures unless
// EC_TEST_EXHAUSTIVE=1. Each test prints how many patterns it recovered.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "gf/decode_plan.hpp"
#include "gf/generator.hpp"
#include "tests/common/random_bytes.hpp"
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

/// Chunks side by side in one block of an arena, each with bytes behind it that nobody may write.
class Row {
 public:
  static constexpr std::size_t chunk_bytes = 67, stride = 128;

  Row(Arena& arena, unsigned count)
      : arena_(arena), image_(count * stride, guard), block_(arena.allocate(image_.size(), 0)) {
    if (block_ == nullptr) throw std::bad_alloc();
  }
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;
  ~Row() { arena_.release(block_); }

  std::uint8_t* chunk(unsigned i) const { return block_ + i * stride; }
  void put(const std::vector<oracle::Bytes>& chunks) {
    for (std::size_t i = 0; i < chunks.size(); ++i) std::ranges::copy(chunks[i], image_.begin() + i * stride);
    upload();
  }
  /// Everything as a guard byte.
  void scramble() {
    std::ranges::fill(image_, guard);
    upload();
  }
  /// Whether the first chunks are these, and all bytes between and behind are guards.
  bool holds(const std::vector<const oracle::Bytes*>& chunks) {
    arena_.download(image_.data(), block_, image_.size());
    for (std::size_t i = 0; i < image_.size() / stride; ++i) {
      const auto* at = image_.data() + i * stride;
      const std::size_t written = i < chunks.size() ? chunk_bytes : 0;
      if (written != 0 && std::memcmp(at, chunks[i]->data(), written) != 0) return false;
      if (!std::all_of(at + written, at + stride, [](auto byte) { return byte == guard; })) return false;
    }
    return true;
  }

 private:
  static constexpr std::uint8_t guard = 0xa7;
  void upload() { arena_.upload(block_, image_.data(), image_.size()); }

  Arena& arena_;
  std::vector<std::uint8_t> image_;
  std::uint8_t* block_;
};

/// One stripe of one code, in the memory of the test.
class Stripe {
 public:
  Stripe(Arena& arena, gf::Technique technique, unsigned k, unsigned m, std::uint64_t seed)
      : coding_(gf::coding_matrix(technique, k, m)),
        residence_(arena.residence()),
        expected_(Random(seed).chunks(k, Row::chunk_bytes)),
        chunks_(arena, k + m),
        made_(arena, m) {
    for (auto& chunk : oracle::apply(oracle::coding_matrix(gf::name(technique), k, m), expected_))
      expected_.push_back(std::move(chunk));
    chunks_.put(expected_);
  }

  /// Makes the wanted chunks; false if the back end gives others.
  bool recovers(kernels::Backend& backend, const gf::ErasureSignature& signature, kernels::Status* status) {
    const auto plan = gf::make_decode_plan(coding_, signature);
    if (!plan) return false;
    std::vector<kernels::Source> sources;
    std::vector<kernels::Target> targets;
    std::vector<const oracle::Bytes*> wanted;
    for (const auto c : plan->sources) sources.push_back({chunks_.chunk(c), residence_});
    for (const auto c : plan->targets) {
      targets.push_back({made_.chunk(static_cast<unsigned>(wanted.size())), residence_});
      wanted.push_back(&expected_[c]);
    }
    const kernels::Program program(plan->matrix, {plan->sources, plan->targets});
    made_.scramble();
    *status = backend.transform({&program, sources, targets, Row::chunk_bytes});
    return *status != kernels::Status::ok || made_.holds(wanted);
  }

  bool intact() {
    std::vector<const oracle::Bytes*> all;
    for (const auto& chunk : expected_) all.push_back(&chunk);
    return chunks_.holds(all);
  }

 private:
  gf::Matrix coding_;
  kernels::Residence residence_;
  std::vector<oracle::Bytes> expected_;
  Row chunks_, made_;
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
