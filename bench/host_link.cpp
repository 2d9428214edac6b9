#include "bench/host_link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "bench/host_stripes.hpp"
#include "bench/pool.hpp"
#include "bench/stats.hpp"
#include "bench/xor_args.hpp"

namespace ec::bench {
namespace {

using kernels::Residence;
using kernels::cuda::Buffer;
using kernels::cuda::Device;

Buffer allocate(std::size_t bytes, Residence residence) {
  Buffer buffer = Buffer::allocate(bytes, residence);
  if (!buffer)
    throw std::runtime_error(fmt::format("no {} memory of {} bytes for the link; see --link-bytes",
                                         kernels::name(residence), bytes));
  return buffer;
}

/// For one sample at a time, for calls of many threads want the device's streams too.
Device::Lane borrow(Device& device) {
  auto lane = device.borrow_lane();
  if (!lane) throw std::runtime_error("no stream of the device is free");
  return std::move(*lane);
}

}  // namespace

LinkRoom::LinkRoom(std::shared_ptr<Device> device, std::size_t bytes)
    : device_(std::move(device)),
      bytes_(bytes),
      pinned_(allocate(bytes, Residence::pinned)),
      device_memory_(allocate(2 * bytes, Residence::device)) {
  for (CUevent* event : {&start_, &stop_, &other_stop_})
    require(driver(), driver().event_create(event, 0), "cuEventCreate");
  constexpr std::size_t piece = std::size_t{1} << 20;
  in_parallel((bytes + piece - 1) / piece, [&](std::size_t i) {
    fill_random({pinned() + i * piece, std::min(piece, bytes - i * piece)}, i);
  });
}

LinkRoom::~LinkRoom() {
  for (CUevent event : {start_, stop_, other_stop_})
    if (event != nullptr) driver().event_destroy(event);
}

double LinkRoom::time(const std::function<void(CUstream, CUstream)>& work) {
  const auto one = borrow(*device_);
  const auto other = borrow(*device_);
  require(driver(), driver().event_record(start_, one.stream()), "cuEventRecord");
  work(one.stream(), other.stream());
  require(driver(), driver().event_record(stop_, one.stream()), "cuEventRecord");
  require(driver(), driver().event_record(other_stop_, other.stream()), "cuEventRecord");
  float longest = 0;
  for (CUevent event : {stop_, other_stop_}) {
    float milliseconds = 0;
    require(driver(), driver().event_synchronize(event), "cuEventSynchronize");
    require(driver(), driver().event_elapsed_time(&milliseconds, start_, event), "cuEventElapsedTime");
    longest = std::max(longest, milliseconds);
  }
  return 1e-3 * static_cast<double>(longest);
}

Ceiling::Ceiling(LinkRoom& room, bool on_device, unsigned k, unsigned targets)
    : room_(room), on_device_(on_device), k_(k), targets_(targets) {
  if (on_device) {
    add_device_copy();
    return;
  }
  add_copies();
  add_kernels();
}

void Ceiling::add_copies() {
  const std::size_t chunk = room_.bytes() / (k_ + targets_);
  const std::size_t in = chunk * k_;
  const std::size_t out = chunk * targets_;
  ways_.push_back(
      {"copies",
       static_cast<double>(in),
       [this, in, out](CUstream one, CUstream other) {
         const auto& driver = room_.driver();
         require(driver, driver.memcpy_htod_async(room_.on_device(), room_.pinned(), in, one),
                 "cuMemcpyHtoDAsync");
         require(driver,
                 driver.memcpy_dtoh_async(room_.pinned() + in, room_.on_device() + room_.bytes(), out, other),
                 "cuMemcpyDtoHAsync");
       },
       {}});
  check_copies(in, out);
}

void Ceiling::check_copies(std::size_t in, std::size_t out) {
  constexpr std::size_t sample = 1024;
  const auto& driver = room_.driver();
  std::vector<std::uint8_t> sent(sample, 0xc5);
  std::vector<std::uint8_t> arrived(sample);
  require(driver, driver.memcpy_htod(room_.on_device() + room_.bytes() + out - sample, sent.data(), sample),
          "cuMemcpyHtoD");
  room_.time(ways_.back().work);
  require(driver, driver.memcpy_dtoh(arrived.data(), room_.on_device() + in - sample, sample),
          "cuMemcpyDtoH");
  if (std::memcmp(room_.pinned() + in - sample, arrived.data(), sample) != 0 ||
      std::memcmp(room_.pinned() + in + out - sample, sent.data(), sample) != 0)
    throw std::runtime_error("the copies that measure the link did not move their bytes");
}

void Ceiling::add_kernels() {
  const std::size_t chunk = room_.bytes() / (k_ + targets_) / xor_tile * xor_tile;
  program_ = std::make_unique<kernels::Program>(gf::Matrix(targets_, k_));
  for (unsigned i = 0; i < k_ + targets_; ++i) chunks_.push_back(room_.pinned() + i * chunk);
  kernels_ = xor_contestants(room_.shared_device());
  for (const auto& kernel : kernels_) {
    const StripeBatch batch{program_.get(), chunk, 1, chunks_, 0};
    kernel->prepare(batch);
    ways_.push_back({kernel->name(),
                     static_cast<double>(chunk * k_),
                     [batch, &kernel = *kernel](CUstream one, CUstream) { kernel.launch(batch, one); },
                     {}});
    check_kernel(kernel->name(), chunk);
  }
}

void Ceiling::check_kernel(const std::string& name, std::size_t chunk) {
  const std::size_t last = chunk - xor_tile;
  std::vector<std::uint8_t> sum(xor_tile);
  for (unsigned s = 0; s < k_; ++s)
    for (std::size_t i = 0; i < xor_tile; ++i) sum[i] ^= chunks_[s][last + i];
  for (unsigned t = 0; t < targets_; ++t) std::memset(chunks_[k_ + t] + last, 0x5a, xor_tile);
  room_.time(ways_.back().work);
  for (unsigned t = 0; t < targets_; ++t)
    if (std::memcmp(chunks_[k_ + t] + last, sum.data(), xor_tile) != 0)
      throw std::runtime_error(fmt::format("{}, which measures the link, made wrong bytes", name));
}

void Ceiling::add_device_copy() {
  // A copy reads and writes as much; a code reads k parts and writes `targets` of the same sum.
  const std::size_t bytes = room_.bytes();
  ways_.push_back(
      {"device copy",
       2.0 * static_cast<double>(bytes) * k_ / (k_ + targets_),
       [this, bytes](CUstream one, CUstream) {
         const auto& driver = room_.driver();
         require(driver, driver.memcpy_dtod_async(room_.on_device() + bytes, room_.on_device(), bytes, one),
                 "cuMemcpyDtoDAsync");
       },
       {}});
  room_.time(ways_.back().work);
}

void Ceiling::sample() {
  for (Way& way : ways_) way.seconds.push_back(room_.time(way.work));
}

std::vector<std::pair<std::string, double>> Ceiling::ways() const {
  std::vector<std::pair<std::string, double>> list;
  for (const Way& way : ways_) list.emplace_back(way.name, 1e-9 * way.source_bytes / median(way.seconds));
  return list;
}

double Ceiling::source_gbps() const {
  double best = 0;
  for (const auto& [name, gbps] : ways()) best = std::max(best, gbps);
  return best;
}

}  // namespace ec::bench
