// Transfers that measure the link and the device's memory.
#include "bench/host/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "bench/common/random.hpp"
#include "bench/common/stats.hpp"
#include "bench/common/workers.hpp"
#include "bench/kernels/xor_args.hpp"

namespace ec::bench {

using kernels::Residence;

LinkBuffers::LinkBuffers(const std::shared_ptr<Device>& device, std::size_t device_index, std::size_t bytes)
    : timer(device),
      pinned(Residence::pinned, bytes, device_index),
      device_memory(Residence::device, 2 * bytes, device_index) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  in_parallel((bytes + piece - 1) / piece, [&](std::size_t i) {
    fill_random({pinned.data() + i * piece, std::min(piece, bytes - i * piece)}, i);
  });
}

Links make_links(std::span<const std::shared_ptr<Device>> devices, std::size_t bytes) {
  Links links;
  for (std::size_t i = 0; i < devices.size(); ++i)
    links.push_back(std::make_unique<LinkBuffers>(devices[i], i, bytes));
  return links;
}

Ceiling::Ceiling(const Links& links, bool on_device, unsigned k, unsigned targets)
    : links_(std::span(links).first(on_device ? 1 : links.size())), k_(k), targets_(targets) {
  if (on_device) {
    add_device_copy();
    return;
  }
  add_copies();
  if (links_.size() == 1) add_kernels();
}

/// Links start one after the other within microseconds, and each by its own clock.
double Ceiling::time(const Way& way) const {
  for (const auto& link : links_)
    link->timer.start([&](CUstream one, CUstream other) { way.work(*link, one, other); });
  double longest = 0;
  for (const auto& link : links_) longest = std::max(longest, link->timer.finish());
  return longest;
}

void Ceiling::add_copies() {
  const std::size_t chunk = links_.front()->pinned.size() / (k_ + targets_);
  const std::size_t in = chunk * k_;
  const std::size_t out = chunk * targets_;
  ways_.push_back(
      {"copies", static_cast<double>(in), [in, out](LinkBuffers& link, CUstream one, CUstream other) {
         const std::uint8_t* device = link.device_memory.data();
         require(gpu_driver().memcpy_htod_async(gpu_address(device), link.pinned.data(), in, one),
                 "cuMemcpyHtoDAsync");
         require(gpu_driver().memcpy_dtoh_async(link.pinned.data() + in,
                                                gpu_address(device + link.pinned.size()), out, other),
                 "cuMemcpyDtoHAsync");
       }});
  for (const auto& link : links_) check_copies(*link, in, out);
}

void Ceiling::check_copies(LinkBuffers& link, std::size_t in, std::size_t out) const {
  constexpr std::size_t sample = 1024;
  const std::vector<std::uint8_t> sent(sample, 0xc5);
  std::vector<std::uint8_t> arrived(sample);
  link.device_memory.write(link.device_memory.data() + link.pinned.size() + out - sample, sent);
  link.timer.start([&](CUstream one, CUstream other) { ways_.back().work(link, one, other); });
  link.timer.finish();
  link.device_memory.read(link.device_memory.data() + in - sample, arrived);
  if (std::memcmp(link.pinned.data() + in - sample, arrived.data(), sample) != 0 ||
      std::memcmp(link.pinned.data() + in + out - sample, sent.data(), sample) != 0)
    throw std::runtime_error("the copies that measure the link did not move their bytes");
}

void Ceiling::add_kernels() {
  const auto& device = links_.front()->timer.device();
  const Device::Scope scope(*device);
  const Memory& pinned = links_.front()->pinned;
  const std::size_t chunk = pinned.size() / (k_ + targets_) / xor_tile * xor_tile;
  program_ = std::make_unique<kernels::Program>(gf::Matrix(targets_, k_));
  for (unsigned i = 0; i < k_ + targets_; ++i) chunks_.push_back(pinned.data() + i * chunk);
  const StripeBatch batch{program_.get(), chunk, 1, chunks_, 0};
  for (const auto& kernel : xor_contestants(std::make_shared<GpuKernels>(device), *device)) {
    ways_.push_back({kernel.name, static_cast<double>(chunk * k_),
                     [batch, kernel](LinkBuffers&, CUstream one, CUstream) { kernel.launch(batch, one); }});
    check_kernel(ways_.back(), chunk);
  }
}

void Ceiling::check_kernel(const Way& way, std::size_t chunk) const {
  const std::size_t last = chunk - xor_tile;
  std::vector<std::uint8_t> sum(xor_tile);
  for (unsigned s = 0; s < k_; ++s)
    for (std::size_t i = 0; i < xor_tile; ++i) sum[i] ^= chunks_[s][last + i];
  for (unsigned t = 0; t < targets_; ++t) std::memset(chunks_[k_ + t] + last, 0x5a, xor_tile);
  time(way);
  for (unsigned t = 0; t < targets_; ++t)
    if (std::memcmp(chunks_[k_ + t] + last, sum.data(), xor_tile) != 0)
      throw std::runtime_error(fmt::format("{}, which measures the link, made wrong bytes", way.name));
}

void Ceiling::add_device_copy() {
  // A copy reads and writes as much; a code reads k parts and writes `targets` of the same sum.
  const std::size_t bytes = links_.front()->pinned.size();
  ways_.push_back({"device copy", 2.0 * static_cast<double>(bytes) * k_ / (k_ + targets_),
                   [bytes](LinkBuffers& link, CUstream one, CUstream) {
                     const CUdeviceptr at = gpu_address(link.device_memory.data());
                     require(gpu_driver().memcpy_dtod_async(at + bytes, at, bytes, one), "cuMemcpyDtoDAsync");
                   }});
  time(ways_.back());
}

void Ceiling::sample() {
  for (Way& way : ways_) way.seconds.push_back(time(way));
}

std::vector<std::pair<std::string, double>> Ceiling::ways() const {
  std::vector<std::pair<std::string, double>> list;
  const auto gpus = static_cast<double>(links_.size());
  for (const Way& way : ways_)
    list.emplace_back(way.name, 1e-9 * gpus * way.source_bytes / median(way.seconds));
  return list;
}

double Ceiling::source_gbps() const {
  double best = 0;
  for (const auto& [name, gbps] : ways()) best = std::max(best, gbps);
  return best;
}

}  // namespace ec::bench
