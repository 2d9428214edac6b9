// Every function of the driver that can fail, at each of its calls in one life of a device, in each way: the
// host sees right bytes and no error, nothing hangs or leaks, and the device comes back. Runs with the
// preload, whose arena is part of it. Against the emulated driver; with a real one behind the fault driver
// (EC_FAULTS_NEXT_DRIVER) fewer calls are visited, because a real device takes its time to come up.
#include <cstdio>
#include <set>
#include <thread>

#include "tests/drivers/fault/plan.hpp"
#include "tests/kernels/cuda/emulated.hpp"
#include "tests/kernels/cuda/workload.hpp"
#include "tests/plugin/codec/routing/round.hpp"
#include "tests/plugin/pinned/preload.hpp"

namespace ec::test {
namespace {

/// What is only asked where a process has several devices (devices_test.cpp).
const std::set<std::string_view> of_several_devices{"cuStreamGetCtx"};
/// What a life does not call in which a stream of the program was used; its result counts for nothing.
constexpr std::string_view without_streams = "cuModuleUnload";
/// Those of the arena, where the program runs without the preload.
const std::set<std::string_view> of_the_preload{"cuMemHostRegister_v2", "cuMemHostUnregister",
                                                "cuMemHostGetDevicePointer_v2"};
/// The functions that tests and measurements alone call.
const std::set<std::string_view> of_measurements{"cuStreamSynchronize", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2"};

class FaultSites : public EmulatedDevice {
 protected:
  static kernels::cuda::Options life() {
    auto o = options();
    // A real device may be shared with others, whose turn comes first.
    const bool emulated = std::string_view(getenv("EC_FAULTS_NEXT_DRIVER")) == EC_EMULATED_DRIVER;
    o.deadline = std::chrono::milliseconds(emulated ? 80 : 1000);
    o.pinned_bytes = std::size_t{8} << 20;
    o.pinned_threshold = 4096;
    o.staging_bytes = Workload::staging_bytes;
    return o;
  }

  unsigned calls(std::string_view symbol) const { return driver_->calls(std::string(symbol).c_str()); }

  /// One life of the device under a plan, from nothing to nothing.
  Seen live(const std::string& rules) {
    use(life());
    driver_->reset();
    log_.clear();
    plan(rules);
    (void)bring_up();
    return Workload(seed_).run();
  }

  /// The same, and what must hold whatever goes wrong. Whether there was such a call.
  bool survives(const std::string& rules, std::string_view site, unsigned nth) {
    const std::string when = "EC_FAULTS=\"" + rules + "\"";
    kernels::cuda::Devices::instance().reset();
    const std::size_t pinned = driver_->pinned_bytes(), device = driver_->device_bytes(),
                      objects = driver_->objects();
    const Seen seen = live(rules);
    kernels::cuda::Devices::instance().reset();
    const bool reached = calls(site) >= nth;
    EXPECT_EQ(seen.failed, 0u) << when << ": " << seen.first_bad << "\n" << log_;
    EXPECT_EQ(seen.wrong + seen.device_wrong, 0u) << when << ": " << seen.first_bad << "\n" << log_;
    EXPECT_LT(seen.longest, longest) << when;
    EXPECT_EQ(seen.hung, 0u) << when;
    EXPECT_EQ(driver_->pinned_bytes(), pinned) << when << "\n" << log_;
    EXPECT_EQ(driver_->device_bytes(), device) << when << "\n" << log_;
    EXPECT_EQ(driver_->objects(), objects) << when << "\n" << log_;
    // A job that a device was latched off for is one that it did not finish, or that was not compared.
    const bool latched = log_.find("latched off") != std::string::npos;
    EXPECT_TRUE(!latched || seen.fell_back + seen.device_failed + seen.unchecked > 0) << when;
    comes_back(when);
    found_wrong_ += seen.found_wrong;
    stream_wrong_ += seen.stream_wrong;
    if (reached) visited_.insert(site);
    visits_ += reached;
    return reached;
  }

  void comes_back(const std::string& when) {
    plan("");
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!bring_up() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    codec::Stats counts;
    kernels::Backend* const list[] = {&kernels::cuda::backend(), kernels::backends().back()};
    const codec::Router router(codec::BackendChoice::gpu, 0, list, counts);
    const codec::Codec codec(gf::Technique::reed_sol_van, 2, 1, router);
    Random random(++seed_);
    EXPECT_TRUE(round_is_right(codec, "reed_sol_van", 100, random)) << when;
    EXPECT_EQ(codec::sum(counts.page()).all(0).calls, 3u) << when << ": the device is not back\n" << log_;
  }

  /// Every call, or with a real device, and under AddressSanitizer, the first two and the last.
  std::vector<unsigned> chosen(std::string_view site) {
    const unsigned n = healthy_.at(site);
    std::vector<unsigned> list;
    for (unsigned i = 1; i <= n; ++i)
      if (!few_ || i <= 2 || i == n) list.push_back(i);
    return list;
  }

  /// `what` at each call of each of the sites. The name of an error is only asked for after one.
  template <class Sites>
  void visit(const Sites& sites, const char* what) {
    const Seen seen = live("");
    ASSERT_EQ(seen.failed + seen.wrong + seen.device_failed + seen.device_wrong, 0u)
        << seen.first_bad << log_;
    ASSERT_EQ(seen.fell_back, 0u);
#ifdef __SANITIZE_ADDRESS__
    few_ = true;
#else
    few_ = log_.find("emulated device") == std::string::npos;
#endif
    kernels::cuda::Devices::instance().reset();
    for (const std::string_view site : sites) healthy_[site] = calls(site);
    healthy_["cuGetErrorName"] = 1;
    for (const std::string_view site : sites)
      for (const unsigned nth : chosen(site)) {
        const std::string before = site == "cuGetErrorName" ? "launch:nth=1:CUDA_ERROR_LAUNCH_FAILED;" : "";
        const std::string rule = std::string(site) + ":nth=" + std::to_string(nth) + ":" + what;
        survives(before + rule, site, nth);
        if (HasFailure()) return;
      }
    std::printf("%s: %u calls of %zu functions visited\n", what, visits_, visited_.size());
  }

  void expect_all_needed_visited() const {
    for (const std::string_view site : faults::driver_sites) {
      if (of_several_devices.contains(site) || of_measurements.contains(site) || site == without_streams)
        continue;
      if (preload_start() == nullptr && of_the_preload.contains(site)) continue;
      EXPECT_TRUE(visited_.contains(site)) << site << " is called by nothing here";
    }
  }

  /// A few deadlines: a job may wait for a device that comes up and then for its own work. Machines are busy.
  static constexpr std::chrono::milliseconds longest{5000};

  std::map<std::string_view, unsigned> healthy_;
  std::set<std::string_view> visited_;
  bool few_ = false;
  unsigned visits_ = 0;
  unsigned found_wrong_ = 0;
  unsigned stream_wrong_ = 0;
  static inline std::uint64_t seed_ = static_cast<std::uint64_t>(getpid()) << 32;
};

class FaultAtEveryCall : public FaultSites, public testing::WithParamInterface<const char*> {};

TEST_P(FaultAtEveryCall, HarmsNothing) {
  visit(faults::driver_sites, GetParam());
  if (!HasFailure()) expect_all_needed_visited();
}

INSTANTIATE_TEST_SUITE_P(Driver, FaultAtEveryCall,
                         testing::Values("CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_NOT_INITIALIZED",
                                         "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_ILLEGAL_ADDRESS",
                                         "CUDA_ERROR_ECC_UNCORRECTABLE", "lost=20ms", "slow=2ms"),
                         [](const auto& info) {
                           std::string name(info.param);
                           std::ranges::replace(name, '=', '_');
                           return name;
                         });

/// A capture of the program may hold kernels of a device that was latched off.
TEST_F(FaultSites, CodeStaysLoadedThatAStreamOfTheProgramGot) {
  const auto unloads = [&](auto&& life) {
    kernels::cuda::Devices::instance().reset();
    life();
    kernels::cuda::Devices::instance().reset();
    return calls("cuModuleUnload");
  };
  EXPECT_GT(unloads([&] { comes_back("no stream"); }), 0u);
  EXPECT_EQ(unloads([&] { (void)live(""); }), 0u);
}

/// A driver that always says "not yet", at one question or for ever. For ever is as good as a hung kernel.
TEST_F(FaultSites, AnUnansweredQuestionIsAskedAgain) {
  const std::string_view only[] = {"cuStreamQuery"};
  visit(only, "CUDA_ERROR_NOT_READY");
  EXPECT_GT(visits_, 0u);
}

TEST_F(FaultSites, ALaunchThatComputesWrongIsSeen) {
  const std::string_view only[] = {"cuLaunchKernel"};
  visit(only, "wrong");
  std::printf("%u wrong launches: validation found %u, %u were on a stream\n", visits_, found_wrong_,
              stream_wrong_);
  // The first launch is the self-test's, which refuses the device; one compares, and makes no target.
  EXPECT_GE(found_wrong_ + stream_wrong_, visits_ - 2);
}

/// A kernel that hangs, at each launch: the deadline passes, the CPU answers, and what the kernel writes when
/// it goes on after all reaches nothing that was handed out since. Last, since a device that hung is never
/// torn down.
class HungKernels : public FaultSites, public testing::WithParamInterface<const char*> {};

TEST_P(HungKernels, WriteNothingThatIsInUse) {
  const Seen healthy = live("");
  ASSERT_EQ(healthy.failed, 0u) << healthy.first_bad << log_;
  const unsigned launches = calls("cuLaunchKernel");
  unsigned hung = 0;
  for (unsigned nth = 1; nth <= launches; ++nth) {
    const std::string when = "launch " + std::to_string(nth);
    use(life());
    driver_->reset();
    plan("launch:nth=" + std::to_string(nth) + ":" + GetParam());
    (void)bring_up();
    Workload first(seed_ += 1000), second(seed_ += 1000);
    Seen seen = first.run();
    EXPECT_EQ(seen.failed + seen.wrong + seen.device_wrong, 0u) << when << ": " << seen.first_bad;
    EXPECT_LT(seen.longest, longest) << when;
    hung += seen.hung;
    // Where the device is forgotten, another one takes over, in what memory it is given.
    if (!bring_up()) use(life());
    EXPECT_TRUE(bring_up()) << when << "\n" << log_;
    seen = second.run();
    EXPECT_EQ(seen.failed + seen.wrong + seen.hung + seen.device_wrong, 0u) << when << ": " << seen.first_bad;
    EXPECT_GT(seen.on_device, 0u) << when;
    driver_->finish_hung();
    EXPECT_EQ(first.changed(), 0u) << when;
    EXPECT_EQ(second.changed(), 0u) << when;
    EXPECT_TRUE(bring_up()) << when;
    if (HasFailure()) return;
  }
  std::printf("%u launches hung, %u of them on memory of the program\n", launches, hung);
  EXPECT_GT(hung, 0u);
}

INSTANTIATE_TEST_SUITE_P(Last, HungKernels, testing::Values("hang"));

}  // namespace
}  // namespace ec::test
