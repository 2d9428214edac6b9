// mps_child BYTES: two threads encode 8+3 on the GPU, chunks of so many bytes, and compare each result. Each
// line of its input is answered with what has happened since the last one, as JSON; the line "fault" has a
// kernel read an address that is nobody's. With the preload chunks lie in its arena, as those of an OSD.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda/backend.hpp"
#include "kernels/residence.hpp"
#include "plugin/codec/codec.hpp"
#include "plugin/codec/stats/stats.hpp"

namespace {

using namespace ec;
using codec::BackendChoice;
using kernels::Residence;
using kernels::Status;

constexpr unsigned k = 8, m = 3;
constexpr unsigned calls_a_buffer = 64;

struct Free {
  void operator()(void* p) const { std::free(p); }
};

std::atomic<std::uint64_t> calls{0}, wrong{0}, spoilt{0}, hung{0}, longest_us{0};

/// One stripe in memory of its own: data, then coding chunks.
class Stripe {
 public:
  explicit Stripe(std::size_t bytes) : bytes_(bytes) {
    void* p = nullptr;
    if (posix_memalign(&p, 4096, (k + m) * bytes) != 0) throw std::bad_alloc();
    memory_.reset(static_cast<std::uint8_t*>(p));
    for (unsigned c = 0; c < k + m; ++c) {
      std::uint8_t* chunk = memory_.get() + c * bytes;
      for (std::size_t i = 0; i < bytes; ++i) chunk[i] = static_cast<std::uint8_t>((i + 1) * (c + 3) >> 3);
      const Residence where = kernels::residence_of(chunk, bytes);
      if (c < k)
        sources_.push_back({chunk, where});
      else
        targets_.push_back({chunk, where});
    }
  }
  /// Nobody writes there any more, or may.
  void give_up() { static_cast<void>(memory_.release()); }
  Status encode(const codec::Codec& codec) {
    for (const auto& target : targets_) std::memset(target.data, 0xee, 64);
    return codec.encode(sources_, targets_, bytes_);
  }
  /// Whether nobody has written where chunks are only read.
  bool has_sources_of(const Stripe& other) const {
    return std::memcmp(memory_.get(), other.memory_.get(), k * bytes_) == 0;
  }
  bool is_like(const Stripe& other) const {
    return std::memcmp(memory_.get() + k * bytes_, other.memory_.get() + k * bytes_, m * bytes_) == 0;
  }

 private:
  std::size_t bytes_;
  std::unique_ptr<std::uint8_t, Free> memory_;
  std::vector<kernels::Source> sources_;
  std::vector<kernels::Target> targets_;
};

codec::Codec codec_with(BackendChoice choice) {
  return {gf::Technique::reed_sol_van, k, m, codec::Router(choice, std::nullopt)};
}

void code_for_ever(std::size_t bytes) {
  const codec::Codec codec = codec_with(BackendChoice::gpu);
  Stripe right(bytes);
  if (right.encode(codec_with(BackendChoice::reference)) != Status::ok) std::abort();
  for (;;) {
    Stripe stripe(bytes);
    for (unsigned call = 0; call < calls_a_buffer; ++call) {
      const auto begun = std::chrono::steady_clock::now();
      const Status status = stripe.encode(codec);
      const auto us =
          std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begun);
      ++calls;
      auto most = longest_us.load();
      while (most < static_cast<std::uint64_t>(us.count()) &&
             !longest_us.compare_exchange_weak(most, static_cast<std::uint64_t>(us.count()))) {
      }
      if (status == Status::hung) {
        ++hung;
        stripe.give_up();
        break;
      }
      if (status != Status::ok || !stripe.is_like(right)) ++wrong;
      if (!stripe.has_sources_of(right)) ++spoilt;
    }
  }
}

/// Chunks "on the device" where nothing is.
void fault() {
  const codec::Codec codec = codec_with(BackendChoice::gpu);
  constexpr std::uintptr_t nowhere = 1 << 20;
  const std::vector<kernels::Source> sources(k,
                                             {reinterpret_cast<std::uint8_t*>(nowhere), Residence::device});
  const std::vector<kernels::Target> targets(m,
                                             {reinterpret_cast<std::uint8_t*>(nowhere), Residence::device});
  static_cast<void>(codec.encode(sources, targets, 4096));
}

void say() {
  static std::uint64_t on_gpu = 0;
  const kernels::DeviceStats device = kernels::device_stats();
  const std::uint64_t now_on_gpu = codec::stats().read(0).calls;
  fmt::print(
      R"({{"calls": {}, "on_gpu": {}, "wrong": {}, "spoilt": {}, "hung": {}, "longest_ms": {}, "state": {}, "starts": {}, "latches": {}, "failed_starts": {}, "mps": {}}})"
      "\n",
      calls.exchange(0), now_on_gpu - std::exchange(on_gpu, now_on_gpu), wrong.load(), spoilt.load(),
      hung.exchange(0), longest_us.exchange(0) / 1000, device.state, device.starts, device.latches,
      device.failed_starts, device.shared_by_mps);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::size_t bytes = std::strtoul(argv[1], nullptr, 10);
  auto options = codec::node_settings().device;
  options.alone_in_process = true;
  options.log = [](const char* line) { fmt::print(stderr, "{}: {}\n", getpid(), line); };
  kernels::cuda::configure(options);
  for (int i = 0; i < 2; ++i) std::thread(code_for_ever, bytes).detach();
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "fault") fault();
    say();
  }
  _exit(0);
}
