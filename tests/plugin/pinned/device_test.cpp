// The preload and the device room together, the device emulated: the arena is page-locked when the device
// comes up, known by its range while it is, and jobs on blocks of it run in place.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>
#include <tuple>

#include "kernels/residence.hpp"
#include "plugin/codec/codec.hpp"
#include "plugin/codec/stats/stats.hpp"
#include "tests/common/child.hpp"
#include "tests/common/placed_stripes.hpp"
#include "tests/common/threads.hpp"
#include "tests/kernels/cuda/emulated.hpp"
#include "tests/plugin/codec/routing/round.hpp"
#include "tests/plugin/pinned/preload.hpp"

namespace ec::test {
namespace {

using kernels::residence_of;

constexpr unsigned k = PlacedStripes::Shape{}.k, m = PlacedStripes::Shape{}.m;
constexpr std::size_t chunk = 64 * KiB;

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Block = std::unique_ptr<std::uint8_t, Free>;

Block block(std::size_t bytes = chunk) {
  void* p = nullptr;
  return Block(posix_memalign(&p, 4096, bytes) == 0 ? static_cast<std::uint8_t*>(p) : nullptr);
}

class PinnedFromBirth : public EmulatedDevice {
 protected:
  void SetUp() override {
    ASSERT_NE(preload_start(), nullptr) << "this program is run under LD_PRELOAD";
    EmulatedDevice::SetUp();
    use(small_arena());
  }
  static kernels::cuda::Options small_arena() {
    auto o = options();
    o.pinned_bytes = 8 * MiB;
    return o;
  }

  /// Encodes a stripe by `auto`; whether the bytes are right.
  bool encode(std::uint64_t seed) const { return encode(seed, codec_); }
  static bool encode(std::uint64_t seed, const codec::Codec& codec) {
    const PlacedStripes stripe(found, seed);
    const kernels::Job& job = stripe.jobs()[0];
    return codec.encode(job.sources, job.targets, chunk) == Status::ok && stripe.right() == true;
  }
  static constexpr PlacedStripes::Shape found{.bytes = chunk, .generated = true, .as_found = true};
  static std::uint64_t on_device() { return codec::sum(codec::stats().page()).all(0).calls; }

  codec::Codec codec_{gf::Technique::reed_sol_van, k, m,
                      codec::Router(codec::BackendChoice::automatic, chunk)};
};

TEST_F(PinnedFromBirth, DeviceOpensTheArenaAndItsBlocksArePinned) {
  const Block early = block();
  ASSERT_TRUE(bring_up()) << log_;
  EXPECT_NE(log_.find("ec_cuda: libec_cuda_pinned.so: 8 MiB are page-locked\n"), std::string::npos) << log_;
  const Block all = block(8 * MiB);
  const std::uint8_t *const start = all.get(), *const end = start + 8 * MiB;
  using enum Residence;
  for (const auto& [first, bytes, expected] : {std::tuple(start, 8 * MiB, pinned),
                                               {end - 1, 1, pinned},
                                               {start + 1000, 0, pinned},
                                               {start - 1, 2, pageable},
                                               {end, 1, pageable},
                                               {end - 1, 2, pageable},
                                               {start, 8 * MiB + 1, pageable},
                                               {start + 1, SIZE_MAX, pageable}})
    EXPECT_EQ(residence_of(first, bytes), expected) << first - start << ", " << bytes;
  const Block small(static_cast<std::uint8_t*>(std::malloc(100)));
  EXPECT_EQ(residence_of(early.get(), chunk), Residence::pageable);
  EXPECT_EQ(residence_of(small.get(), 100), Residence::pageable);
}

TEST_F(PinnedFromBirth, FirstJobBringsTheDeviceAndLaterOnesRunInPlace) {
  const auto before = on_device();
  ASSERT_TRUE(encode(1)) << "on the CPU; only says that pinned chunks would have gone elsewhere";
  EXPECT_EQ(on_device(), before);
  ASSERT_TRUE(bring_up()) << log_;  // waits for what the job has begun
  EXPECT_EQ(driver_->calls("cuInit"), 1u);
  const auto launches = driver_->calls("cuLaunchKernel");
  const auto staging = driver_->calls("cuMemHostAlloc");
  for (std::uint64_t seed = 2; seed < 12; ++seed) ASSERT_TRUE(encode(seed));
  EXPECT_EQ(on_device(), before + 10);
  EXPECT_GE(driver_->calls("cuLaunchKernel"), launches + 10);
  EXPECT_EQ(driver_->calls("cuMemHostAlloc"), staging) << "nothing was staged";
}

TEST_F(PinnedFromBirth, TheStatsShowTheArena) {
  ASSERT_TRUE(bring_up()) << log_;
  const auto& seen = codec::stats().page().arena;
  const Block held[] = {block(), block(), block()};
  // The first job of a thread is timed; one look a second.
  for (int i = 0; i < 3 && seen.used_bytes != 3 * chunk; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    std::thread([] {
      StripeSet stripes("cauchy", k, m, 1, chunk, 1);
      const codec::Codec codec(gf::Technique::cauchy, k, m, codec::Router(codec::BackendChoice::cpu, 0));
      EXPECT_TRUE(encode_is_right(codec, stripes));
    }).join();
  }
  EXPECT_EQ(seen.arena_bytes, 8 * MiB);
  EXPECT_EQ(seen.used_bytes, 3 * chunk);
  EXPECT_EQ(seen.allocated - seen.released, 3u);
}

TEST_F(PinnedFromBirth, SmallJobsAndOtherChoicesWakeNobody) {
  const PlacedStripes stripe(found, 1);
  const kernels::Job& job = stripe.jobs()[0];
  EXPECT_EQ(codec_.encode(job.sources, job.targets, chunk / k - 1), Status::ok) << "below the threshold";
  using enum codec::BackendChoice;
  for (const auto choice : {cpu, x86, isal, reference}) {
    EXPECT_TRUE(encode(2, codec::Codec(gf::Technique::reed_sol_van, k, m, codec::Router(choice, 0))));
  }
  const Block b = block();
  EXPECT_EQ(residence_of(b.get(), chunk), Residence::pageable);
  EXPECT_EQ(driver_->all_calls(), 0u);
}

TEST_F(PinnedFromBirth, ArenaComesAndGoesWithTheDevice) {
  ASSERT_TRUE(bring_up());
  const Block b = block();
  for (int round = 0; round < 5; ++round) {
    use(small_arena());  // drops the device
    EXPECT_EQ(residence_of(b.get(), chunk), Residence::pageable);
    EXPECT_EQ(driver_->calls("cuMemHostUnregister"), driver_->calls("cuMemHostRegister_v2"));
    ASSERT_TRUE(encode(static_cast<std::uint64_t>(round)));
    ASSERT_TRUE(bring_up());
    EXPECT_EQ(residence_of(b.get(), chunk), Residence::pinned);
    EXPECT_NE(driver_->calls("cuMemHostUnregister"), driver_->calls("cuMemHostRegister_v2"));
  }
}

TEST_F(PinnedFromBirth, RefusedLockingIsSaidAndLeavesOrdinaryMemory) {
  for (const char* rule : {"cuMemHostRegister_v2:nth=1:2", "cuMemHostGetDevicePointer_v2:nth=1:2", ""}) {
    use(small_arena());
    driver_->reset();
    log_.clear();
    plan(rule);
    // Without a rule the device has another address for the arena.
    setenv("EC_EMULATED_SHIFT", *rule == '\0' ? "4096" : "0", 1);
    ASSERT_TRUE(bring_up()) << "the device itself is well";
    EXPECT_NE(log_.find(std::string("ec_cuda: libec_cuda_pinned.so: 8 MiB could not be page-locked: ") +
                        (*rule == '\0' ? "EMULATED_ERROR_801\n" : "EMULATED_ERROR_2\n")),
              std::string::npos)
        << log_;
    EXPECT_EQ(preload_statistics().arena_bytes, 0u);
    EXPECT_EQ(residence_of(block().get(), chunk), Residence::pageable);
    ASSERT_TRUE(encode(1));
  }
  setenv("EC_EMULATED_SHIFT", "0", 1);
  use(small_arena());
  ASSERT_TRUE(bring_up());
  EXPECT_EQ(residence_of(block().get(), chunk), Residence::pinned) << "the next device may";
}

TEST_F(PinnedFromBirth, HungDeviceKeepsTheArenaLockedUntilItsWorkIsOver) {
  ASSERT_TRUE(bring_up());
  PlacedStripes stripe(found, 1);
  plan("launch:every=1:hang");
  EXPECT_EQ(codec_.encode(stripe.jobs()[0].sources, stripe.jobs()[0].targets, chunk), Status::hung);
  stripe.abandon();  // a late write may still come
  EXPECT_FALSE(bring_up());
  EXPECT_TRUE(encode(2));
  EXPECT_EQ(driver_->calls("cuMemHostUnregister"), 0u);
  driver_->finish_hung();
  ASSERT_TRUE(bring_up()) << log_;
  EXPECT_EQ(driver_->calls("cuMemHostUnregister"), 1u);
  const auto before = on_device();
  EXPECT_TRUE(encode(3));
  EXPECT_EQ(on_device(), before + 1);
}

/// A process may hold two copies of this code, each with devices of its own: ours does not take the arena
/// from the other, for which it is pinned.
TEST_F(PinnedFromBirth, AnArenaThatIsAnothersStaysLockedAndIsOrdinaryMemory) {
  const auto& driver = kernels::cuda::Driver::open(EC_FAULT_DRIVER);
  CUcontext context = nullptr;
  ASSERT_EQ(driver.init(0), CUDA_SUCCESS);
  ASSERT_EQ(driver.primary_ctx_retain(&context, 0), CUDA_SUCCESS);
  driver.ctx_push_current(context);
  const auto lock = [](void* start, std::size_t bytes, void* of) {
    return static_cast<int>(
        static_cast<const kernels::cuda::Driver*>(of)->mem_host_register(start, bytes, 0));
  };
  ASSERT_EQ(preload_start()(8 * MiB, chunk, lock, const_cast<kernels::cuda::Driver*>(&driver)), 0);
  driver.ctx_pop_current(&context);
  ASSERT_TRUE(bring_up());
  EXPECT_NE(log_.find("8 MiB could not be page-locked: EMULATED_ERROR_712\n"), std::string::npos) << log_;
  EXPECT_EQ(residence_of(block().get(), chunk), Residence::pageable);
  EXPECT_TRUE(encode(1));
  use(small_arena());
  EXPECT_EQ(driver_->calls("cuMemHostUnregister"), 0u);
}

/// The driver forgets the arena with the context in which it was registered: whichever device that was, its
/// end must not reach the other.
TEST_F(PinnedFromBirth, ADeviceThatIsGivenUpLeavesTheArenaToTheOther) {
  setenv("EC_EMULATED_DEVICES", "2", 1);
  auto o = small_arena();
  o.devices = {0, 1};
  auto& devices = kernels::cuda::Devices::instance();
  for (const std::size_t victim : {0u, 1u}) {
    o.retry_after = std::chrono::seconds(3600);
    use(o);
    log_.clear();
    kernels::cuda::Reason why;
    for (const std::size_t i : {0u, 1u}) ASSERT_TRUE(devices.acquire_waiting(i, &why)) << why.c_str();
    devices.latch(*devices.acquire_waiting(victim, &why), "a test");
    ASSERT_FALSE(devices.acquire_waiting(victim, &why));
    const auto before = on_device();
    for (std::uint64_t seed = 0; seed < 3; ++seed) EXPECT_TRUE(encode(seed));
    EXPECT_EQ(on_device(), before + 3);
    EXPECT_EQ(residence_of(block().get(), chunk), Residence::pinned);
  }
  use(small_arena());
  EXPECT_EQ(driver_->calls("cuMemHostUnregister"), driver_->calls("cuMemHostRegister_v2"));
  EXPECT_EQ(driver_->calls("cuDevicePrimaryCtxRelease_v2"), driver_->calls("cuDevicePrimaryCtxRetain"));
  unsetenv("EC_EMULATED_DEVICES");
}

TEST_F(PinnedFromBirth, ThreadsCodeWhileTheDeviceComesAndFails) {
  std::atomic<bool> right{true};
  const auto before = on_device();
  auto threads = threads_of(4, [&](std::uint64_t t) {
    // Not all before the device is up for the first time.
    for (std::uint64_t i = 0; i < 40 || (on_device() == before && i < 20'000); ++i)
      if (!encode(1000 * t + i)) right = false;
  });
  for (int i = 0; i < 10; ++i) {
    bring_up();
    plan("launch:nth=3:CUDA_ERROR_LAUNCH_FAILED");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  threads.clear();
  EXPECT_TRUE(right);
  EXPECT_GT(on_device(), before);
  EXPECT_EQ(preload_statistics().used_bytes, 0u);
}

TEST_F(PinnedFromBirth, ChildOfForkTakesNothingForPinned) {
  ASSERT_TRUE(bring_up());
  EXPECT_EQ(in_child([&] {
              const Block b = block();
              return residence_of(b.get(), chunk) == Residence::pageable && encode(1) && on_device() == 0 ? 0
                                                                                                          : 1;
            }),
            0);
}

}  // namespace
}  // namespace ec::test
