// Staging: what is copied through the slab of a lane, in slices where it must; what becomes of memory and
// targets when a slice goes wrong; and that jobs allocate nothing in the driver.
#include <chrono>
#include <cstring>
#include <set>
#include <vector>

#include "kernels/cuda/device/memory.hpp"
#include "kernels/cuda/submit/device_job.hpp"
#include "kernels/tallies.hpp"
#include "kernels/transfer.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/kernels/cuda/emulated.hpp"

namespace ec::test {
namespace {

using kernels::Residence;
using kernels::Status;
using kernels::cuda::Buffer;
using kernels::cuda::Device;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kib = 1024;
constexpr unsigned k = 4, m = 2;
/// Of the options of the fixture: a lane has this much.
constexpr std::size_t slab_bytes = 64 * kib;
/// Of 4+2 in five slices: half a slab holds six chunks of a page.
constexpr std::size_t page = 4 * kib;
constexpr std::size_t five_slices = 5 * page - 777;

/// A stripe of 4+2 with an oracle's answer: sources pageable, targets of any residence.
class Stripe {
 public:
  Stripe(std::size_t bytes, Verb verb, Residence residence = Residence::pageable)
      : bytes_(bytes),
        verb_(verb),
        program_(to_matrix(rows_)),
        data_(Random(bytes).chunks(k, bytes)),
        before_(Random(bytes + 1).bytes(m * bytes)),
        heap_(before_) {
    if (residence != Residence::pageable) memory_ = Buffer::allocate(m * bytes, residence);
    expected_ = before_;
    const auto coded = oracle::apply(rows_, data_);
    for (std::size_t i = 0; i < m * bytes; ++i) {
      const std::uint8_t byte = coded[i / bytes][i % bytes];
      expected_[i] = verb == Verb::accumulate ? expected_[i] ^ byte : byte;
    }
    for (const auto& chunk : data_) sources_.push_back({chunk.data(), Residence::pageable});
    std::uint8_t* first = memory_ ? memory_.data() : heap_.data();
    for (unsigned r = 0; r < m; ++r) targets_.push_back({first + r * bytes, residence});
    set_targets(before_);
  }

  kernels::cuda::Outcome run() const {
    const auto device = kernels::cuda::Devices::instance().current();
    return kernels::cuda::run_job(device, {&program_, sources_, targets_, bytes_}, verb_,
                                  kernels::cuda::KernelKind::automatic);
  }

  /// Of every target the first bytes, or all.
  bool is_right(std::size_t bytes) { return holds(expected_, bytes); }
  bool is_right() { return is_right(bytes_); }
  bool is_as_before() { return holds(before_, bytes_); }
  void start_over() { set_targets(before_); }
  void fill_targets(std::uint8_t value) {
    before_.assign(m * bytes_, value);
    set_targets(before_);
  }
  /// A late kernel may still write what is not pageable.
  void abandon() { new Buffer(std::move(memory_)); }

 private:
  void set_targets(const oracle::Bytes& content) {
    heap_ = content;
    if (memory_) {
      EXPECT_TRUE(memory_.upload(0, content.data(), content.size()));
    }
  }
  bool holds(const oracle::Bytes& content, std::size_t bytes) {
    if (memory_) {
      EXPECT_TRUE(memory_.download(0, heap_.data(), heap_.size()));
    }
    bool same = true;
    for (unsigned r = 0; r < m; ++r)
      same = same && std::memcmp(heap_.data() + r * bytes_, content.data() + r * bytes_, bytes) == 0;
    return same;
  }

  const std::size_t bytes_;
  const Verb verb_;
  const oracle::Rows rows_ = random_matrix(m, k, 5);
  const kernels::Program program_;
  const std::vector<oracle::Bytes> data_;
  oracle::Bytes before_, heap_, expected_;
  Buffer memory_;
  std::vector<kernels::Source> sources_;
  std::vector<kernels::Target> targets_;
};

class Staging : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    before_ = held();
    up();
  }

  /// A new device, and nothing counted.
  void up(std::chrono::milliseconds deadline = options().deadline) {
    auto o = options();
    o.deadline = deadline;
    use(o);
    driver_->reset();
    ASSERT_TRUE(bring_up()) << log_;
    driver_->reset();
  }

  struct Held {
    std::size_t pinned, staging, given_up;
    bool operator==(const Held&) const = default;
  };
  Held held() const {
    const auto& tallies = kernels::device_tallies();
    return {driver_->pinned_bytes(), kernels::read(tallies.staging_bytes),
            kernels::read(tallies.given_up_bytes)};
  }
  unsigned launches() const { return driver_->calls("cuLaunchKernel"); }
  static std::shared_ptr<Device> device() { return kernels::cuda::Devices::instance().current(); }
  static std::vector<Device::Lane> all_lanes() {
    std::vector<Device::Lane> lanes;
    while (auto lane = device()->borrow_lane()) lanes.push_back(std::move(*lane));
    return lanes;
  }

  Held before_{};
};

TEST_F(Staging, CoversChunksOfAnyLengthAndResidence) {
  const auto pageable = pageable_arena();
  const auto pinned = cuda_arena(Residence::pinned);
  const auto on_device = cuda_arena(Residence::device);
  ASSERT_TRUE(pinned && on_device);
  Arena* const arenas[][2] = {{pageable.get(), pageable.get()},
                              {pageable.get(), pinned.get()},
                              {pinned.get(), pageable.get()},
                              {pageable.get(), on_device.get()},
                              {on_device.get(), pageable.get()}};
  for (const auto& [targets, sources] : {std::pair{1u, 1u}, {2u, 4u}, {3u, 12u}, {8u, 32u}})
    for (const std::size_t bytes : {1u, 257u, 20'481u, 130'001u})
      for (const auto& [from, to] : arenas)
        for (const Verb verb : {Verb::transform, Verb::accumulate}) {
          driver_->reset();
          const bool on_host = from != on_device.get() && to != on_device.get();
          // Sums wait in the slab until the end.
          if (verb == Verb::accumulate && on_host && targets * bytes > slab_bytes / 2) continue;
          const auto outcome = run_case(
              kernels::cuda::backend(),
              {random_matrix(targets, sources, bytes), bytes, verb, {0, 1, 16}, {3, 0}, bytes}, *from, *to);
          ASSERT_EQ(outcome.verdict, Verdict::passed)
              << name(from->residence()) << " to " << name(to->residence()) << ": " << outcome.reason;
          const std::size_t staged =
              (from == pageable.get() ? sources : 0) + (to == pageable.get() ? targets : 0);
          EXPECT_GE(launches() * slab_bytes, staged * bytes);
        }
}

TEST_F(Staging, SumsMustFitTheSlabAndAreLeftAloneOtherwise) {
  constexpr std::size_t longest = slab_bytes / m - 1024;
  for (const Residence targets : {Residence::pageable, Residence::pinned}) {
    Stripe fits(longest, Verb::accumulate, targets), longer(slab_bytes / m + 1, Verb::accumulate, targets);
    EXPECT_EQ(fits.run().status, Status::ok);
    EXPECT_TRUE(fits.is_right());
    EXPECT_EQ(longer.run().status, Status::busy);
    EXPECT_TRUE(longer.is_as_before());
  }
  Stripe on_device(5 * slab_bytes, Verb::accumulate, Residence::device);
  EXPECT_EQ(on_device.run().status, Status::ok);
  EXPECT_TRUE(on_device.is_right());
}

/// An allocation in a job could wait for another that hangs.
TEST_F(Staging, IsAllocatedWhenTheDeviceComesUpAndNeverInAJob) {
  const Held up = held();
  EXPECT_EQ(up.pinned - before_.pinned, options().staging_bytes);
  EXPECT_EQ(up.staging - before_.staging, options().staging_bytes);
  EXPECT_EQ(Stripe(five_slices, Verb::transform).run().status, Status::ok);
  EXPECT_EQ(Stripe(1000, Verb::accumulate).run().status, Status::ok);
  auto buffer = Buffer::allocate(4 * page, Residence::device);
  driver_->reset();
  const kernels::Program program(to_matrix({{2, 3}}));
  const auto at = [&](std::size_t i) { return buffer.data() + i * page; };
  const kernels::Source sources[] = {{at(0), Residence::device}, {at(1), Residence::device}};
  const kernels::Target targets[] = {{at(2), Residence::device}, {at(3), Residence::device}};
  const kernels::Job jobs[] = {{&program, sources, {targets, 1}, page},
                               {&program, sources, {targets + 1, 1}, page}};
  EXPECT_EQ(kernels::cuda::backend().transform_all(jobs), Status::ok);
  std::vector<std::uint8_t> host(page);
  const kernels::Transfer piece{at(2), Residence::device, host.data(), page};
  EXPECT_EQ(kernels::fetch({&piece, 1}), Status::ok);
  for (const char* function : {"cuMemHostAlloc", "cuMemAlloc_v2", "cuMemFreeHost", "cuMemFree_v2"})
    EXPECT_EQ(driver_->calls(function), 0u) << function;
  EXPECT_EQ(held(), up);
  buffer = Buffer();
  use(options());  // drops the device
  EXPECT_EQ(held(), before_);
}

TEST_F(Staging, LanesHaveSlabsOfTheirOwn) {
  const auto lanes = all_lanes();
  ASSERT_EQ(lanes.size(), Device::lane_count);
  std::set<const std::uint8_t*> starts;
  for (const Device::Lane& lane : lanes) {
    EXPECT_EQ(lane.slab().size(), slab_bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lane.slab().data()) % page, 0u);
    starts.insert(lane.slab().data());
  }
  EXPECT_EQ(starts.size(), lanes.size());
  for (const std::uint8_t* start : starts)
    EXPECT_TRUE(starts.upper_bound(start) == starts.end() ||
                *starts.upper_bound(start) - start >= static_cast<std::ptrdiff_t>(slab_bytes));
  Stripe stripe(1000, Verb::transform);
  EXPECT_EQ(stripe.run().status, Status::busy) << "all lanes are in use";
  std::vector<std::uint8_t> host(1);
  const auto buffer = Buffer::allocate(1, Residence::device);
  const kernels::Transfer piece{buffer.data(), Residence::device, host.data(), 1};
  EXPECT_EQ(kernels::fetch({&piece, 1}), Status::busy);
}

TEST_F(Staging, AFaultInAnySliceLosesNothing) {
  unsigned visited = 0;
  for (const Verb verb : {Verb::transform, Verb::accumulate}) {
    const bool sum = verb == Verb::accumulate;
    Stripe stripe(five_slices, verb);
    for (const char* function : {"cuLaunchKernel", "cuStreamQuery", "cuCtxPushCurrent_v2"})
      for (const CUresult error : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_LAUNCH_FAILED})
        for (unsigned nth = 1;; ++nth) {
          const std::string when = std::string(function) + " " + std::to_string(nth);
          up();
          driver_->fail(function, nth, error, error == CUDA_ERROR_LAUNCH_FAILED);
          stripe.start_over();
          const auto outcome = stripe.run();
          const bool reached = driver_->calls(function) >= nth;
          driver_->reset();
          EXPECT_TRUE(outcome.status == Status::ok ? stripe.is_right() : !sum || stripe.is_as_before())
              << when;
          EXPECT_EQ(all_lanes().size(), Device::lane_count) << when;
          if (!reached) {
            EXPECT_EQ(outcome.status, Status::ok) << when;
            break;
          }
          ++visited;
        }
  }
  EXPECT_GT(visited, 40u);
}

/// A code of several launches is answered when all of them are over.
TEST_F(Staging, AFaultIsAnsweredWhenWhatWasLaunchedBeforeIsOver) {
  up(std::chrono::milliseconds(5000));
  // A rule does not count the calls that one before it decides: this is the second.
  ASSERT_EQ(driver_->plan("launch:nth=1:hang=60ms;launch:nth=1:CUDA_ERROR_OUT_OF_MEMORY"), nullptr);
  const auto start = Clock::now();
  const auto outcome = Stripe(5000, Verb::transform).run();
  EXPECT_EQ(outcome.status, Status::fault);
  EXPECT_EQ(outcome.reason.find("no answer"), std::string::npos) << outcome.reason;
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(60));
  EXPECT_EQ(launches(), 2u) << "the tensor cores, and the tile kernel for the end";
  EXPECT_EQ(all_lanes().size(), Device::lane_count);
}

struct Hang {
  const char* name;
  Verb verb;
  Residence targets;
  unsigned nth;           ///< launch
  unsigned launches;      ///< in all
  std::size_t right = 0;  ///< bytes of every target that were copied out before
  Status status = Status::fault;
};

class HungSlice : public Staging, public testing::WithParamInterface<Hang> {};

INSTANTIATE_TEST_SUITE_P(
    Staging, HungSlice,
    testing::Values(Hang{"first", Verb::transform, Residence::pageable, 1, 1},
                    Hang{"second", Verb::transform, Residence::pageable, 2, 2, page},
                    Hang{"last", Verb::transform, Residence::pageable, 5, 6, 4 * page},
                    Hang{"of_a_sum", Verb::accumulate, Residence::pageable, 2, 2},
                    Hang{"of_a_sum_pinned", Verb::accumulate, Residence::pinned, 2, 2},
                    Hang{"in_place", Verb::transform, Residence::pinned, 2, 2, 0, Status::hung},
                    Hang{"of_a_sum_in_place", Verb::accumulate, Residence::device, 2, 2, 0, Status::hung}),
    [](const auto& info) { return info.param.name; });

/// Its lane and memory are not used again, what it writes late reaches nothing of the host's, or the caller
/// is told that it may.
TEST_P(HungSlice, KeepsItsMemory) {
  const Hang& hang = GetParam();
  const auto on = device();
  ASSERT_EQ(driver_->plan(("launch:nth=" + std::to_string(hang.nth) + ":hang").c_str()), nullptr);
  Stripe stripe(five_slices, hang.verb, hang.targets);
  const auto outcome = stripe.run();
  EXPECT_EQ(outcome.status, hang.status);
  EXPECT_NE(outcome.reason.find("no answer within"), std::string::npos) << outcome.reason;
  EXPECT_EQ(launches(), hang.launches);
  EXPECT_EQ(all_lanes().size(), Device::lane_count - 1);
  EXPECT_EQ(held().given_up - before_.given_up, options().staging_bytes);
  if (hang.status == Status::fault) {
    EXPECT_TRUE(stripe.is_right(hang.right));
    EXPECT_TRUE(hang.verb == Verb::transform || stripe.is_as_before());
    stripe.fill_targets(0x55);
    driver_->finish_hung();
    EXPECT_TRUE(stripe.is_as_before());
  }
  driver_->finish_hung();
  stripe.abandon();
  use(options());
  EXPECT_GE(held().pinned - before_.pinned, options().staging_bytes) << "it stays for good";
}

}  // namespace
}  // namespace ec::test
