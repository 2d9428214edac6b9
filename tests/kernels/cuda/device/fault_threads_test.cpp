// Many threads code while the device fails, hangs, is lost and comes back: every result is right. Codecs are
// made and destroyed meanwhile, as in a daemon that opens placement groups under load.
#include <atomic>
#include <mutex>
#include <thread>

#include "plugin/codec/codec.hpp"
#include "plugin/codec/stats/stats.hpp"
#include "tests/common/placed_stripes.hpp"
#include "tests/common/threads.hpp"
#include "tests/kernels/cuda/emulated.hpp"
#include "tests/plugin/codec/routing/round.hpp"

namespace ec::test {
namespace {

using codec::Codec;

constexpr unsigned threads = 64;
#ifdef __SANITIZE_THREAD__
constexpr unsigned rounds = 30;
#else
constexpr unsigned rounds = 100;
#endif

struct Shape {
  gf::Technique technique;
  unsigned k, m;
};
constexpr Shape shapes[] = {{gf::Technique::reed_sol_van, 2, 1}, {gf::Technique::cauchy, 4, 2},
                            {gf::Technique::reed_sol_van, 8, 3}, {gf::Technique::cauchy, 10, 4},
                            {gf::Technique::cauchy, 6, 6},       {gf::Technique::reed_sol_van, 4, 2}};

/// What the device is put through, one after the other.
constexpr const char* plans[] = {
    "launch:every=5:CUDA_ERROR_LAUNCH_FAILED",
    "",
    "cuMemHostAlloc:every=3:CUDA_ERROR_OUT_OF_MEMORY;cuLaunchKernel:every=7:slow=2ms",
    "cuStreamQuery:every=9:CUDA_ERROR_ILLEGAL_ADDRESS",
    "launch:every=11:lost=3ms",
    "cuda:p=0.02:CUDA_ERROR_ECC_UNCORRECTABLE",
    "",
    "launch:nth=20:hang=100ms",
    "cuCtxPushCurrent:every=13:CUDA_ERROR_NOT_INITIALIZED"};

/// A job in pinned memory, in place; whether the bytes are right, or the device hung over them.
bool pinned_job_is_right(const codec::Router& router, std::size_t bytes, Random& random) {
  const Verb verb = random.below(2) == 0 ? Verb::transform : Verb::accumulate;
  PlacedStripes stripes({bytes, Residence::pinned, Residence::pinned, verb, 1}, random.next());
  if (!stripes) return true;  // no device is there to have such memory
  const kernels::Job& job = stripes.jobs()[0];
  const Status status = router.transform(job, operation_of(verb));
  if (status == Status::hung) {
    stripes.abandon();
    return true;
  }
  return status == Status::ok && stripes.right() == true;
}

/// A round in ordinary memory, and now and then a job in pinned memory before it.
bool round_is_right(const Codec& codec, const codec::Router& router, std::string_view technique,
                    Random& random) {
  const std::size_t bytes = random.below(3000);
  return (random.below(3) != 0 || pinned_job_is_right(router, bytes, random)) &&
         test::round_is_right(codec, technique, bytes, random);
}

class FaultThreads : public EmulatedDevice {
 protected:
  static kernels::cuda::Options noisy() {
    auto o = options();
    o.deadline = std::chrono::milliseconds(2000);
    o.log = [](const char* line) {
      const std::lock_guard lock(log_mutex_);
      ups_ += std::string_view(line).find(" is up: ") != std::string_view::npos;
      latches_ += std::string_view(line).find("latched off") != std::string_view::npos;
    };
    return o;
  }

  static inline std::mutex log_mutex_;
  static inline unsigned ups_ = 0, latches_ = 0;
};

TEST_F(FaultThreads, SixtyFourCodeRightWhateverTheDeviceDoes) {
  use(noisy());
  const auto before = codec::sum(codec::stats().page()).all(0);
  std::atomic<unsigned> wrong{0}, running{threads};
  auto working = threads_of(threads, [&](unsigned t) {
    Random random(t);
    for (unsigned round = 0; round < rounds; ++round) {
      const auto choice = random.below(4) == 0 ? codec::BackendChoice::automatic : codec::BackendChoice::gpu;
      const Shape& shape = shapes[random.below(std::size(shapes))];
      const codec::Router router(choice, 0);
      const Codec codec(shape.technique, shape.k, shape.m, router);
      wrong += !round_is_right(codec, router, gf::name(shape.technique), random);
    }
    --running;
  });
  for (unsigned i = 0; running != 0; ++i) {
    plan(plans[i % std::size(plans)]);
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  working.clear();
  plan("");
  EXPECT_EQ(wrong, 0u);
  const auto after = codec::sum(codec::stats().page()).all(0);
  EXPECT_GT(after.calls, before.calls);
  EXPECT_GT(after.fell_back(), before.fell_back());
  EXPECT_GT(ups_, 1u);
  EXPECT_GT(latches_, 1u);
  std::this_thread::sleep_for(std::chrono::milliseconds(4));  // a "lost=3ms" may still hold
  Random random(99);
  const codec::Router router(codec::BackendChoice::gpu, 0);
  const Codec codec(gf::Technique::cauchy, 4, 2, router);
  // The last fault may have been met by a call that codes nothing: a job then finds the device at its end.
  EXPECT_TRUE(round_is_right(codec, router, "cauchy", random));
  EXPECT_TRUE(bring_up() || bring_up());
  EXPECT_TRUE(round_is_right(codec, router, "cauchy", random));
  EXPECT_GT(codec::sum(codec::stats().page()).all(0).calls, after.calls) << "the device is not back\n"
                                                                         << log_;
}

}  // namespace
}  // namespace ec::test
