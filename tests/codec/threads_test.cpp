// Many threads on shared codes: mixed shapes, signatures and verbs, every result checked.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "plugin/codec/codec.hpp"
#include "tests/codec/stripe.hpp"

namespace ec::test {
namespace {

using codec::Codec;
using kernels::Status;

struct SharedCode {
  gf::Technique technique;
  unsigned k, m;
};

constexpr SharedCode shared_codes[] = {{gf::Technique::reed_sol_van, 4, 2},
                                       {gf::Technique::cauchy, 4, 2},
                                       {gf::Technique::reed_sol_van, 8, 3},
                                       {gf::Technique::cauchy, 10, 4},
                                       {gf::Technique::cauchy, 6, 6}};

/// One round: encode, lose up to m chunks, decode, update. Whether every byte came out right.
bool round_is_right(const Codec& codec, std::string_view technique, Random& random) {
  const unsigned k = codec.k(), m = codec.m();
  const std::size_t bytes = random.below(700);
  Stripe stripe(technique, k, m, bytes, random.next());
  stripe.scramble_coding();
  if (codec.encode(stripe.data(), stripe.coding(), bytes) != Status::ok || stripe.chunks != stripe.intact)
    return false;
  gf::ChunkSet lost;
  for (unsigned i = 0; i < 1 + random.below(m); ++i) lost.insert(random.below(k + m));
  for (auto c : lost) stripe.scramble(c);
  const auto plan = codec.plan({gf::ChunkSet::first(k + m) - lost, lost});
  if (!plan || codec.decode(*plan, stripe.sources(), stripe.targets(), bytes) != Status::ok ||
      stripe.chunks != stripe.intact)
    return false;
  const unsigned chunk = random.below(k);
  const auto delta = random.bytes(bytes);
  Stripe after = stripe;
  auto content = stripe.chunks[chunk];
  for (std::size_t i = 0; i < bytes; ++i) content[i] ^= delta[i];
  after.replace(chunk, content);
  if (codec.update(chunk, {delta.data()}, stripe.coding(), bytes) != Status::ok) return false;
  for (unsigned c = k; c < k + m; ++c)
    if (stripe.chunks[c] != after.chunks[c]) return false;
  return true;
}

TEST(Threads, EightOnSharedCodes) {
  std::atomic<unsigned> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Random random(t);
      const auto choice = t % 3 == 0 ? codec::BackendChoice::reference : codec::BackendChoice::automatic;
      for (unsigned round = 0; round < 200; ++round) {
        // A new Codec each round: set-up races with use, as in a daemon that opens placement groups under
        // load.
        const auto& code = shared_codes[random.below(std::size(shared_codes))];
        const Codec codec(code.technique, code.k, code.m, codec::Router(choice, 0));
        wrong += !round_is_right(codec, gf::name(code.technique), random);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace ec::test
