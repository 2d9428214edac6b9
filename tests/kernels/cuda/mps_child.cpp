// mps_child BYTES: two threads encode 8+3 on the GPU, chunks of so many bytes, and compare each result. Each
// line of its input is answered with what has happened since the last one, as JSON; the line "fault" has a
// kernel read an address that is nobody's. With the preload chunks lie in its arena, as those of an OSD.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda/backend.hpp"
#include "plugin/codec/codec.hpp"
#include "plugin/codec/stats/stats.hpp"
#include "tests/common/placed_stripes.hpp"

namespace {

using namespace ec;
using kernels::Residence;
using kernels::Status;

constexpr unsigned k = 8, m = 3;
constexpr unsigned calls_a_buffer = 64;

std::atomic<std::uint64_t> calls{0}, wrong{0}, spoilt{0}, hung{0}, longest_us{0};

codec::Codec gpu_codec() {
  return {gf::Technique::reed_sol_van, k, m, codec::Router(codec::BackendChoice::gpu, std::nullopt)};
}

void code_for_ever(std::size_t bytes) {
  const codec::Codec codec = gpu_codec();
  for (std::uint64_t seed = 0;; ++seed) {
    test::PlacedStripes stripe({.bytes = bytes, .generated = true, .k = k, .m = m, .as_found = true}, seed);
    const kernels::Job& job = stripe.jobs()[0];
    for (unsigned call = 0; call < calls_a_buffer; ++call) {
      stripe.fill_targets(0xee);
      const auto begun = std::chrono::steady_clock::now();
      const Status status = codec.encode(job.sources, job.targets, bytes);
      const auto us =
          std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begun);
      ++calls;
      auto most = longest_us.load();
      while (most < static_cast<std::uint64_t>(us.count()) &&
             !longest_us.compare_exchange_weak(most, static_cast<std::uint64_t>(us.count()))) {
      }
      if (status == Status::hung) {
        ++hung;
        stripe.abandon();
        break;
      }
      if (status != Status::ok || stripe.right() != true) ++wrong;
      if (!stripe.has_sources()) ++spoilt;
    }
  }
}

/// Chunks "on the device" where nothing is.
void fault() {
  const codec::Codec codec = gpu_codec();
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
  const std::uint64_t now_on_gpu = codec::sum(codec::stats().page()).all(0).calls;
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
