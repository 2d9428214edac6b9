// libec_cuda.so in a process of Ceph's kind that runs with the preload, the device emulated: what the plugin
// is handed and what it makes is pinned, so the device codes it in place, and a device that hangs on it fails
// no call.
//
// The environment is that of a daemon: see CMakeLists.txt for the settings.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "tests/common/allocator.hpp"
#include "tests/common/child.hpp"
#include "tests/common/oracle.hpp"
#include "tests/common/random_bytes.hpp"
#include "tests/drivers/fault/control.hpp"
#include "tests/plugin/ceph/roles.hpp"
#include "tests/plugin/pinned/preload.hpp"

namespace ec::test {
namespace {

using ceph::bufferlist;
using ceph::bufferptr;

constexpr unsigned k = 4, m = 2;
constexpr unsigned chunk = 64 * KiB;

const std::set<int> every_shard = first_chunks(k + m);

class CephWithPreload : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(preload_start(), nullptr) << "this program is run under LD_PRELOAD";
    driver_ = faults::control_of();
    ASSERT_NE(driver_, nullptr) << "not the fault driver";
    driver_->reset();
    Made made = make("cuda", profile_of("reed_sol_van", k, m), EC_PLUGIN_DIR);
    ASSERT_TRUE(made.code) << made.why;
    code_ = made.code;
    EXPECT_EQ(driver_->all_calls(), 0u) << "loading touches no device";
  }

  /// A stripe as a messenger receives it: one page-aligned buffer. The last bytes of the object are zeros.
  void make_data(std::uint64_t seed, unsigned zeros = 0) {
    auto data = Random(seed).chunks(k, chunk);
    std::fill(data.back().end() - zeros, data.back().end(), 0);
    const auto coding = oracle::apply(oracle::coding_matrix("reed_sol_van", k, m), data);
    bufferptr buffer(ceph::buffer::create_page_aligned(k * chunk));
    for (unsigned c = 0; c < k + m; ++c) {
      const oracle::Bytes& bytes = c < k ? data[c] : coding[c - k];
      right_[static_cast<int>(c)] = {bytes.begin(), bytes.end()};
      if (c < k) std::memcpy(buffer.c_str() + c * chunk, bytes.data(), chunk);
    }
    in_.clear();
    in_.push_back(std::move(buffer));
  }
  Chunks encode() {
    Chunks out;
    EXPECT_EQ(code_->encode(every_shard, in_, &out), 0);
    return out;
  }
  void expect_right(const Chunks& chunks, const std::set<int>& shards) {
    for (const int shard : shards) {
      ASSERT_TRUE(chunks.contains(shard)) << shard;
      EXPECT_TRUE(chunks.at(shard).to_str() == right_.at(shard)) << "shard " << shard;
    }
  }
  /// The first jobs are the CPU's; waits until the arena is open.
  void bring_up() {
    for (int i = 0; i < 500; ++i) {
      make_data(1);
      expect_right(encode(), every_shard);
      if (preload_statistics().arena_bytes != 0 &&
          launched([&] { expect_right(encode_new(2), every_shard); }) != 0)
        return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    FAIL() << "the device does not come up";
  }
  Chunks encode_new(std::uint64_t seed) {
    make_data(seed);
    return encode();
  }
  template <class Work>
  unsigned launched(Work&& work) {
    const unsigned before = driver_->calls("cuLaunchKernel");
    work();
    return driver_->calls("cuLaunchKernel") - before;
  }
  const faults::Control* driver_ = nullptr;
  ceph::ErasureCodeInterfaceRef code_;
  std::map<int, std::string> right_;
  bufferlist in_;
};

TEST_F(CephWithPreload, EncodeAndDecodeRunOnTheDeviceInPlace) {
  bring_up();
  const auto staged = driver_->calls("cuMemHostAlloc");
  for (std::uint64_t seed = 10; seed < 20; ++seed) {
    Chunks chunks;
    EXPECT_GE(launched([&] { chunks = encode_new(seed); }), 1u);
    expect_right(chunks, every_shard);
    const std::set<int> lost{0, 5};
    Chunks decoded;
    EXPECT_GE(launched([&] { EXPECT_EQ(code_->decode(lost, without(chunks, lost), &decoded, chunk), 0); }),
              1u);
    expect_right(decoded, lost);
    bufferlist object;
    EXPECT_GE(launched([&] { EXPECT_EQ(code_->decode_concat(without(chunks, lost), &object), 0); }), 1u);
    EXPECT_TRUE(object.contents_equal(in_));
  }
  EXPECT_EQ(driver_->calls("cuMemHostAlloc"), staged) << "nothing was staged";
}

TEST_F(CephWithPreload, LargeBuffersOfEveryKindComeFromTheArena) {
  bring_up();
  const auto taken_by = [](auto&& make) {
    const auto before = preload_statistics().allocated;
    const bufferptr made(make());
    return preload_statistics().allocated - before;
  };
  namespace buffer = ceph::buffer;
  EXPECT_EQ(taken_by([] { return buffer::create(chunk); }), 1u);
  EXPECT_EQ(taken_by([] { return buffer::create_aligned(chunk, 64); }), 1u);
  EXPECT_EQ(taken_by([] { return buffer::create_page_aligned(chunk); }), 1u);
  EXPECT_EQ(taken_by([] { return buffer::create_small_page_aligned(chunk); }), 1u);
  EXPECT_EQ(taken_by([] { return buffer::create_small_page_aligned(4096); }), 0u) << "below the threshold";
  EXPECT_EQ(taken_by([] { return buffer::create_malloc(chunk); }), 0u)
      << "what is asked of malloc is malloc's";
}

TEST_F(CephWithPreload, WhatIsNotAllPinnedIsTheCpus) {
  bring_up();
  make_data(30);
  // A stripe in heap memory: the preload leaves malloc alone.
  bufferlist heap;
  auto* bytes = static_cast<char*>(malloc(k * chunk));
  in_.begin().copy(k * chunk, bytes);
  heap.push_back(ceph::buffer::claim_malloc(k * chunk, bytes));
  Chunks out;
  EXPECT_EQ(launched([&] { EXPECT_EQ(code_->encode(every_shard, heap, &out), 0); }), 0u);
  expect_right(out, every_shard);
  // A short last chunk is gathered and padded in a buffer made for it, which is pinned again.
  make_data(31, 100);
  bufferlist shorter;
  shorter.substr_of(in_, 0, k * chunk - 100);
  Chunks padded;
  EXPECT_GE(launched([&] { EXPECT_EQ(code_->encode(every_shard, shorter, &padded), 0); }), 1u);
  expect_right(padded, every_shard);
}

TEST_F(CephWithPreload, BuffersOfTheCallerAreNeverWrittenInPlace) {
  bring_up();
  Chunks chunks = encode_new(40);
  for (const int shard : {4, 5}) chunks[shard].zero();
  EXPECT_EQ(launched([&] { EXPECT_EQ(code_->encode_chunks(every_shard, &chunks), 0); }), 0u);
  expect_right(chunks, every_shard);
  const Chunks survivors = without(chunks, {1, 4});
  for (const int shard : {1, 4}) {
    chunks[shard].clear();
    bufferptr fresh(ceph::buffer::create_page_aligned(chunk));
    chunks[shard].push_back(fresh);
  }
  EXPECT_EQ(launched([&] { EXPECT_EQ(code_->decode_chunks({1, 4}, survivors, &chunks), 0); }), 0u);
  expect_right(chunks, every_shard);
}

/// A job that one device has not answered is not given to the other device in place.
class TwoDevices : public CephWithPreload {
 protected:
  void SetUp() override {
    setenv("EC_EMULATED_DEVICES", "2", 1);
    setenv("EC_CUDA_DEVICES", "0,1", 1);
    CephWithPreload::SetUp();
  }
  void expect_made(const std::set<int>& makes,
                   const std::function<int(const Chunks& in, Chunks* out)>& call) {
    bring_up();
    const Chunks in = without(encode_new(50), makes);
    driver_->plan("launch:every=1:hang");
    Chunks out;
    EXPECT_GE(launched([&] { EXPECT_EQ(call(in, &out), 0); }), 1u);
    driver_->finish_hung();
    expect_right(out, makes);
  }
};

TEST_F(TwoDevices, ThatBothHangFailNoEncode) {
  expect_made({4, 5}, [&](const Chunks&, Chunks* out) { return code_->encode({4, 5}, in_, out); });
}

TEST_F(TwoDevices, ThatBothHangFailNoDecode) {
  expect_made({0, 5}, [&](const Chunks& in, Chunks* out) { return code_->decode({0, 5}, in, out, chunk); });
}

/// Each allocation of a call fails, alone and with all that follow, while the device fails: what a call has
/// made does not change any more, and no memory that a kernel may still write is given back. Each case is a
/// child process.
class Shortage : public CephWithPreload {
 protected:
  void SetUp() override {
    setenv("EC_CUDA_DEADLINE_MS", "20", 1);
    setenv("EC_CUDA_VALIDATE", "always", 1);
    CephWithPreload::SetUp();
  }

  using Call = std::function<int(const Chunks& in, Chunks* out)>;
  static constexpr int idle = 2, enough_memory = 77, made = 10, refused = 11;

  int try_one(const char* plan, const std::set<int>& makes, const Call& call, unsigned nth, bool all) {
    bring_up();
    const Chunks in = without(encode_new(3), makes);
    driver_->watch(spare_allocations);
    if (HasFailure() || driver_->plan(plan) != nullptr) return 1;
    Chunks out;
    const unsigned launches = driver_->calls("cuLaunchKernel");
    begin_shortage(nth, all);
    const int answer = call(in, &out);
    const unsigned failed = end_shortage();
    if (failed == 0 && driver_->calls("cuLaunchKernel") == launches) return idle;
    if (nth != 0 && failed == 0) return enough_memory;
    driver_->plan("");
    if (answer == 0)
      expect_right(out, makes);
    else
      EXPECT_EQ(answer, -ENOMEM);
    if (answer != 0) out.clear();
    // What was given back is taken again.
    std::vector<bufferptr> others;
    for (unsigned i = 0; i < 4 * m; ++i) {
      others.emplace_back(ceph::buffer::create_page_aligned(chunk));
      std::memset(others.back().c_str(), 0x55, chunk);
    }
    driver_->finish_hung();
    if (answer == 0) expect_right(out, makes);
    for (const auto& [shard, list] : in) EXPECT_TRUE(list.to_str() == right_.at(shard)) << shard;
    for (const bufferptr& other : others)
      EXPECT_EQ(std::count(other.c_str(), other.c_str() + chunk, 0x55), chunk)
          << "memory of others was written";
    if (HasFailure()) return 1;
    return answer == 0 ? made : refused;
  }

  void at_each_allocation(const char* plan, const std::set<int>& makes, const Call& call) {
    const auto in_a_child = [&](unsigned nth, bool all) {
      int answer = idle;
      // On a busy host a job before the call may meet the deadline, and the device is off.
      for (int i = 0; answer == idle && i < 20; ++i)
        answer = in_child([&] {
          const int tried = try_one(plan, makes, call, nth, all);
          std::fflush(stdout);
          return tried;
        });
      return answer;
    };
    EXPECT_EQ(in_a_child(0, false), made) << plan << ": as long as there is memory no fault is the host's";
    unsigned cases = 0;
    for (const bool all : {false, true})
      for (unsigned nth = 1;; ++nth, ++cases) {
        const int answer = in_a_child(nth, all);
        if (answer == enough_memory) break;
        ASSERT_TRUE(answer == made || answer == refused)
            << plan << ", allocation " << nth << (all ? " and all after it" : "") << ": " << answer;
      }
    EXPECT_GT(cases, 10u);
  }
  void at_each_fault(const std::set<int>& makes, const Call& call) {
    for (const char* plan :
         {"launch:every=1:hang", "launch:every=1:hang;cuStreamQuery:every=1:3",
          "launch:nth=1:CUDA_ERROR_LAUNCH_FAILED", "cuStreamQuery:nth=1:lost=10s", "launch:every=1:wrong"})
      at_each_allocation(plan, makes, call);
  }
};

TEST_F(Shortage, LeavesWhatEncodeHasMade) {
  const std::set<int> coding{4, 5};
  at_each_fault(coding, [&](const Chunks&, Chunks* out) { return code_->encode(coding, in_, out); });
}

TEST_F(Shortage, LeavesWhatDecodeHasMade) {
  const std::set<int> lost{0, 5};
  at_each_fault(lost, [&](const Chunks& in, Chunks* out) { return code_->decode(lost, in, out, chunk); });
}

}  // namespace
}  // namespace ec::test
