// A device takes all the memory that its jobs need when it comes up, as much as docs/operations.md says.
// However many threads code, and from whatever memory, nothing comes to that.
#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/device_stats.hpp"
#include "tests/common/placed_stripes.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/common/threads.hpp"
#include "tests/kernels/cuda/emulated.hpp"

namespace ec::test {
namespace {

using kernels::cuda::Device;
using kernels::cuda::KernelKind;

constexpr std::size_t device_bytes = Device::lane_count * Device::Lane::table_bytes;

/// What the process holds: device and staging memory as the device room counts, and as the driver does.
using Held = std::array<std::size_t, 4>;

class MemoryBounds : public EmulatedDevice {
 protected:
  static kernels::cuda::Options bounded() {
    auto o = options();
    // So busy a machine may take its time.
    o.deadline = std::chrono::seconds(20);
    return o;
  }
  Held now() const {
    const auto& stats = kernels::device_stats();
    return {kernels::read(stats.device_bytes), kernels::read(stats.staging_bytes), driver_->device_bytes(),
            driver_->pinned_bytes()};
  }

  /// Every third of the things that can be asked for; some for several slices of staging. All of them for
  /// each thread would take longer to make than to code.
  static std::vector<std::unique_ptr<PlacedStripes>> every_third(unsigned number) {
    std::vector<std::unique_ptr<PlacedStripes>> some;
    for (const auto sources : {Residence::pageable, Residence::pinned, Residence::device})
      for (const auto targets : {Residence::pageable, Residence::pinned, Residence::device})
        for (const std::size_t count : {1u, 3u}) {
          if (++number % 3 != 0) continue;
          const std::size_t bytes = count == 1 ? 160 * 1024 : 5000;
          some.push_back(std::make_unique<PlacedStripes>(
              PlacedStripes::Shape{bytes, sources, targets, Verb::transform, count, true}, count));
        }
    return some;
  }

  void code(PlacedStripes& stripes, KernelKind kind) {
    auto& gpu = kernels::cuda::backend(kind);
    const auto jobs = stripes.jobs();
    const Status status = jobs.size() == 1 ? gpu.transform(jobs[0]) : gpu.transform_all(jobs);
    busy_ += status == Status::busy;
    done_ += status == Status::ok;
    wrong_ += status == Status::ok ? stripes.right() != true : status != Status::busy;
    stripes.fill_targets(0xee);
  }

  std::atomic<unsigned> done_{0}, busy_{0}, wrong_{0};
};

TEST_F(MemoryBounds, HoldWhateverManyThreadsAskFor) {
  use(bounded());
  const Held before = now();
  ASSERT_TRUE(bring_up()) << log_;
  const std::size_t staging = bounded().staging_bytes;
  EXPECT_EQ(now(), (Held{before[0] + device_bytes, before[1] + staging, before[2] + device_bytes,
                         before[3] + staging}));

  constexpr unsigned threads = 32, rounds = 20;
  std::vector<std::vector<std::unique_ptr<PlacedStripes>>> stripes(threads);
  for (unsigned t = 0; t < threads; ++t) stripes[t] = every_third(t);
  const Held idle = now();
  // Work that takes its time on the device, so that all lanes are asked for at once.
  plan("launch:every=2:slow=1ms");
  std::atomic<unsigned> running{threads}, more{0};
  auto working = threads_of(threads, [&](unsigned t) {
    Random random(t);
    for (unsigned round = 0; round < rounds; ++round)
      code(*stripes[t][random.below(stripes[t].size())],
           random.below(2) == 0 ? KernelKind::automatic : KernelKind::generated);
    --running;
  });
  for (; running != 0; std::this_thread::sleep_for(std::chrono::microseconds(200))) more += now() != idle;
  working.clear();
  EXPECT_EQ(wrong_, 0u);
  EXPECT_EQ(more, 0u) << "jobs have allocated";
  EXPECT_GT(done_, threads);
  EXPECT_GT(busy_, 0u);

  plan("");
  stripes.clear();
  use(bounded());  // drops the device
  EXPECT_EQ(now(), before);
}

}  // namespace
}  // namespace ec::test
