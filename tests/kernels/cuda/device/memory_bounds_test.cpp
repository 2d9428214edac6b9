// However many threads code, and from whatever memory, the device room holds no more device memory and no
// more pinned memory than docs/operations.md says that a process takes.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/tallies.hpp"
#include "tests/common/conformance.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/kernels/cuda/emulated.hpp"
#include "tools/device/buffer.hpp"

namespace ec::test {
namespace {

using kernels::Job;
using kernels::Residence;
using kernels::Source;
using kernels::Status;
using kernels::Target;
using kernels::cuda::Buffer;
using kernels::cuda::Device;
using kernels::cuda::KernelKind;

constexpr unsigned threads = 32;
constexpr unsigned rounds = 20;
constexpr unsigned k = 2;
constexpr unsigned stripes = 3;
/// Of the longest chunk: for several slices of staging.
constexpr std::size_t longest = 160 * 1024;

/// As docs/operations.md has it, for one GPU.
constexpr std::size_t most_device_bytes = Device::lane_count * Device::Lane::table_bytes;

/// Two chunks of data and what `program` makes of them, byte for byte; a prefix of it is right for shorter
/// ones.
struct Content {
  kernels::Program program{to_matrix({{2, 3}})};
  std::vector<oracle::Bytes> data = Random(1).chunks(k, longest);
  oracle::Bytes coded = oracle::apply({{2, 3}}, data)[0];
};

/// Chunks of one thread in one kind of memory: the data, and a target for each stripe.
class Chunks {
 public:
  Chunks(Residence residence, const Content& content) : residence_(residence) {
    constexpr std::size_t all = (k + stripes) * longest;
    if (residence == Residence::pageable)
      heap_.resize(all);
    else
      buffer_ = Buffer::allocate(all, residence);
    for (unsigned i = 0; i < k; ++i) put(i, content.data[i]);
    for (unsigned i = k; i < k + stripes; ++i) put(i, oracle::Bytes(longest, 0xee));
  }
  static constexpr std::size_t bytes() { return (k + stripes) * longest; }

  std::uint8_t* chunk(unsigned i) {
    return (residence_ == Residence::pageable ? heap_.data() : buffer_.data()) + i * longest;
  }
  Source source(unsigned i) { return {chunk(i), residence_}; }
  Target target(unsigned stripe) { return {chunk(k + stripe), residence_}; }

  /// Whether the target holds what is right; makes it wrong for the next one.
  bool take(unsigned stripe, std::size_t bytes, const Content& content) {
    oracle::Bytes now(bytes);
    if (residence_ == Residence::device)
      EXPECT_TRUE(buffer_.download((k + stripe) * longest, now.data(), bytes));
    else
      std::memcpy(now.data(), chunk(k + stripe), bytes);
    put(k + stripe, oracle::Bytes(bytes, 0xee));
    return std::equal(now.begin(), now.end(), content.coded.begin());
  }

 private:
  void put(unsigned i, const oracle::Bytes& from) {
    if (residence_ == Residence::device)
      EXPECT_TRUE(buffer_.upload(i * longest, from.data(), from.size()));
    else
      std::memcpy(chunk(i), from.data(), from.size());
  }

  Residence residence_;
  std::vector<std::uint8_t> heap_;
  Buffer buffer_;
};

/// What a thread codes from, and into what.
struct Crate {
  explicit Crate(const Content& content)
      : pageable(Residence::pageable, content),
        pinned(Residence::pinned, content),
        device(Residence::device, content) {}
  Chunks& of(unsigned i) { return i == 0 ? pageable : i == 1 ? pinned : device; }
  Chunks pageable, pinned, device;
};

/// What the process holds.
struct Held {
  std::size_t device, staging;               ///< as the device room counts
  std::size_t driver_device, driver_pinned;  ///< as the driver does
};

class MemoryBounds : public EmulatedDevice {
 protected:
  static kernels::cuda::Options bounded() {
    auto o = options();
    // So busy a machine may take its time.
    o.deadline = std::chrono::seconds(20);
    return o;
  }

  void SetUp() override {
    // Programs are generated, by the emulated compiler: only they want tables.
    EmulatedDevice::SetUp();
    use_emulated_compiler();
    use(bounded());
    before_ = now();
    ASSERT_TRUE(bring_up()) << log_;
    for (unsigned t = 0; t < threads; ++t) crates_.push_back(std::make_unique<Crate>(content_));
  }
  void TearDown() override {
    crates_.clear();
    EmulatedDevice::TearDown();
  }

  Held now() const {
    const auto& tallies = kernels::device_tallies();
    return {kernels::read(tallies.device_bytes), kernels::read(tallies.staging_bytes),
            driver_->device_bytes(), driver_->pinned_bytes()};
  }
  /// Of the device room alone.
  Held held() const {
    constexpr std::size_t chunks = threads * Chunks::bytes();
    const Held n = now();
    return {n.device - before_.device, n.staging - before_.staging,
            n.driver_device - before_.driver_device - chunks,
            n.driver_pinned - before_.driver_pinned - chunks};
  }

  /// One job, or one for each stripe, drawn from all that can be asked for.
  void code(Crate& crate, Random& random) {
    constexpr KernelKind kinds[] = {KernelKind::automatic, KernelKind::generated};
    auto& gpu = kernels::cuda::backend(kinds[random.below(2)]);
    Chunks& from = crate.of(random.below(3));
    Chunks& to = random.below(4) == 0 ? crate.of(random.below(3)) : from;
    const std::size_t bytes = random.below(3) == 0 ? longest : 4096 + random.below(longest - 4096);
    const unsigned count = random.below(2) == 0 ? stripes : 1;
    const std::array sources{from.source(0), from.source(1)};
    std::vector<Target> targets;
    for (unsigned s = 0; s < count; ++s) targets.push_back(to.target(s));
    std::vector<Job> jobs;
    for (const Target& target : targets) jobs.push_back({&content_.program, sources, {&target, 1}, bytes});
    const Status status = count == 1 ? gpu.transform(jobs[0]) : gpu.transform_all(jobs);
    busy_ += status == Status::busy;
    done_ += status == Status::ok;
    for (unsigned s = 0; s < count; ++s) {
      const bool right = to.take(s, bytes, content_);
      wrong_ += status == Status::ok && !right;
    }
    EXPECT_TRUE(status == Status::ok || status == Status::busy) << kernels::name(status);
  }

  const Content content_;
  std::vector<std::unique_ptr<Crate>> crates_;
  std::atomic<unsigned> done_{0}, busy_{0}, wrong_{0};
  Held before_{};
};

TEST_F(MemoryBounds, HoldWhateverManyThreadsAskFor) {
  EXPECT_EQ(held().driver_device, most_device_bytes) << "nothing is left for jobs to allocate";
  // Work that takes its time on the device, so that all lanes, rooms and blocks are asked for at once.
  ASSERT_EQ(driver_->plan("launch:every=2:slow=1ms"), nullptr);
  std::atomic<unsigned> running{threads};
  std::vector<std::thread> crew;
  for (unsigned t = 0; t < threads; ++t)
    crew.emplace_back([&, t] {
      Random random(t);
      for (unsigned round = 0; round < rounds; ++round) code(*crates_[t], random);
      --running;
    });
  Held most{};
  do {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const Held h = held();
    most.device = std::max(most.device, h.device);
    most.staging = std::max(most.staging, h.staging);
    most.driver_device = std::max(most.driver_device, h.driver_device);
    most.driver_pinned = std::max(most.driver_pinned, h.driver_pinned);
  } while (running != 0);
  for (auto& thread : crew) thread.join();
  const auto o = bounded();
  std::printf("%u jobs done, %u busy; at most %zu of %zu bytes of device memory and %zu of %zu of staging\n",
              done_.load(), busy_.load(), most.device, most_device_bytes, most.staging, o.staging_bytes);
  EXPECT_EQ(wrong_, 0u);
  EXPECT_LE(most.device, most_device_bytes);
  EXPECT_LE(most.driver_device, most_device_bytes) << "what is not tallied";
  EXPECT_LE(most.staging, o.staging_bytes);
  EXPECT_LE(most.driver_pinned, o.staging_bytes) << "what is not tallied";
  // Or the load was none.
  EXPECT_GT(done_, threads);
  EXPECT_GT(busy_, 0u);
  EXPECT_EQ(most.device, most_device_bytes);
  EXPECT_EQ(most.staging, o.staging_bytes);

  ASSERT_EQ(driver_->plan(""), nullptr);
  crates_.clear();
  use(o);  // drops the device
  EXPECT_EQ(now().device, before_.device);
  EXPECT_EQ(now().staging, before_.staging);
  EXPECT_EQ(now().driver_device, before_.driver_device);
  EXPECT_EQ(now().driver_pinned, before_.driver_pinned);
}

}  // namespace
}  // namespace ec::test
