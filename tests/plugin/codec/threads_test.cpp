// Many threads on shared codes: mixed shapes, signatures and verbs, every result checked.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "plugin/codec/codec.hpp"
#include "tests/plugin/codec/routing/round.hpp"

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
        wrong += !round_is_right(codec, gf::name(code.technique), random.below(700), random);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace ec::test
