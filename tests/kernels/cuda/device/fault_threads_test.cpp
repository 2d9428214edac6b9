// Many threads code while the device fails, hangs, is lost and comes back: every result is right. Codecs are
// made and destroyed meanwhile, as in a daemon that opens placement groups under load.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "plugin/codec/codec.hpp"
#include "plugin/codec/stats/counters.hpp"
#include "tests/kernels/cuda/emulated.hpp"
#include "tests/plugin/codec/routing/round.hpp"
#include "tools/device/buffer.hpp"

namespace ec::test {
namespace {

using codec::Codec;
using kernels::Residence;
using kernels::Source;
using kernels::Status;
using kernels::Target;

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

/// The chunks of a stripe in pinned memory, if a device is there to have some.
class PinnedStripe {
 public:
  explicit PinnedStripe(const Stripe& stripe)
      : bytes_(stripe.chunks.front().size()),
        buffer_(kernels::cuda::Buffer::allocate(std::max<std::size_t>(1, stripe.chunks.size() * bytes_),
                                                Residence::pinned)) {
    for (std::size_t c = 0; buffer_ && bytes_ != 0 && c < stripe.chunks.size(); ++c)
      std::memcpy(chunk(c), stripe.chunks[c].data(), bytes_);
  }
  ~PinnedStripe() {
    if (abandoned_) new kernels::cuda::Buffer(std::move(buffer_));
  }
  PinnedStripe(const PinnedStripe&) = delete;
  PinnedStripe& operator=(const PinnedStripe&) = delete;

  explicit operator bool() const { return static_cast<bool>(buffer_); }
  std::uint8_t* chunk(std::size_t c) const { return buffer_.data() + c * bytes_; }
  bool equals(std::size_t c, const oracle::Bytes& content) const {
    return bytes_ == 0 || std::memcmp(chunk(c), content.data(), bytes_) == 0;
  }
  void abandon() { abandoned_ = true; }

 private:
  std::size_t bytes_;
  kernels::cuda::Buffer buffer_;
  bool abandoned_ = false;
};

/// Encodes in pinned memory, in place; whether the bytes are right, or the device hung over them.
bool pinned_encode_is_right(const Codec& codec, const Stripe& stripe, std::size_t bytes) {
  PinnedStripe pinned(stripe);
  if (!pinned) return true;
  std::vector<Source> data;
  std::vector<Target> coding;
  for (unsigned c = 0; c < codec.k(); ++c) data.push_back({pinned.chunk(c), Residence::pinned});
  for (unsigned c = codec.k(); c < codec.k() + codec.m(); ++c)
    coding.push_back({pinned.chunk(c), Residence::pinned});
  const Status status = codec.encode(data, coding, bytes);
  if (status == Status::hung) {
    pinned.abandon();
    return true;
  }
  bool right = status == Status::ok;
  for (unsigned c = 0; c < codec.k() + codec.m(); ++c) right = right && pinned.equals(c, stripe.intact[c]);
  return right;
}

/// A round in ordinary memory, and now and then an encode in pinned memory before it.
bool round_is_right(const Codec& codec, std::string_view technique, Random& random) {
  const std::size_t bytes = random.below(3000);
  if (random.below(3) == 0) {
    Stripe stripe(technique, codec.k(), codec.m(), bytes, random.next());
    stripe.scramble_coding();
    if (!pinned_encode_is_right(codec, stripe, bytes)) return false;
  }
  return test::round_is_right(codec, technique, bytes, random);
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
  const auto before = codec::counts_of("cuda");
  std::atomic<unsigned> wrong{0}, running{threads};
  std::vector<std::thread> crew;
  for (unsigned t = 0; t < threads; ++t)
    crew.emplace_back([&, t] {
      Random random(t);
      for (unsigned round = 0; round < rounds; ++round) {
        const auto choice =
            random.below(4) == 0 ? codec::BackendChoice::automatic : codec::BackendChoice::gpu;
        const Shape& shape = shapes[random.below(std::size(shapes))];
        const Codec codec(shape.technique, shape.k, shape.m, codec::Router(choice, 0));
        wrong += !round_is_right(codec, gf::name(shape.technique), random);
      }
      --running;
    });
  unsigned injected = 0;
  for (unsigned i = 0; running != 0; ++i) {
    EXPECT_EQ(driver_->plan(plans[i % std::size(plans)]), nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  for (auto& thread : crew) thread.join();
  injected = driver_->injected();
  EXPECT_EQ(driver_->plan(""), nullptr);
  EXPECT_EQ(wrong, 0u);

  const auto after = codec::counts_of("cuda");
  std::printf(
      "%u threads, %u rounds each: %llu calls done by the device, %llu fallen back, %u faults, the device up "
      "%u times, latched off %u times\n",
      threads, rounds, static_cast<unsigned long long>(after.calls - before.calls),
      static_cast<unsigned long long>(after.fallbacks - before.fallbacks), injected, ups_, latches_);
  EXPECT_GT(after.calls, before.calls);
  EXPECT_GT(after.fallbacks, before.fallbacks);
  EXPECT_GT(ups_, 1u);
  EXPECT_GT(latches_, 1u);
  EXPECT_TRUE(bring_up());
  Random random(99);
  const Codec codec(gf::Technique::cauchy, 4, 2, codec::Router(codec::BackendChoice::gpu, 0));
  EXPECT_TRUE(round_is_right(codec, "cauchy", random));
  EXPECT_GT(codec::counts_of("cuda").calls, after.calls) << "the device is not back";
}

}  // namespace
}  // namespace ec::test
