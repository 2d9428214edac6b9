#include "bench/host/host_link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "bench/common/pool.hpp"
#include "bench/common/stats.hpp"
#include "bench/host/host_stripes.hpp"
#include "bench/kernels/xor_args.hpp"

namespace ec::bench {
namespace {

using kernels::Residence;
using kernels::cuda::Buffer;
using kernels::cuda::Device;

Buffer allocate(std::size_t bytes, Residence residence, std::size_t device_index) {
  Buffer buffer = Buffer::allocate(bytes, residence, device_index);
  if (!buffer)
    throw std::runtime_error(fmt::format("no {} memory of {} bytes for the link; see --link-bytes",
                                         kernels::name(residence), bytes));
  return buffer;
}

Device::Lane borrow(Device& device) {
  auto lane = device.borrow_lane();
  if (!lane) throw std::runtime_error("no stream of the device is free");
  return std::move(*lane);
}

}  // namespace

LinkRoom::LinkRoom(std::shared_ptr<Device> device, std::size_t device_index, std::size_t bytes)
    : device_(std::move(device)),
      bytes_(bytes),
      pinned_(allocate(bytes, Residence::pinned, device_index)),
      device_memory_(allocate(2 * bytes, Residence::device, device_index)) {
  const Device::Scope scope(*device_);
  for (CUevent* event : {&start_, &stop_, &other_stop_})
    require(driver(), driver().event_create(event, 0), "cuEventCreate");
  constexpr std::size_t piece = std::size_t{1} << 20;
  in_parallel((bytes + piece - 1) / piece, [&](std::size_t i) {
    fill_random({pinned() + i * piece, std::min(piece, bytes - i * piece)}, i);
  });
}

LinkRoom::~LinkRoom() {
  const Device::Scope scope(*device_);
  for (CUevent event : {start_, stop_, other_stop_})
    if (event != nullptr) driver().event_destroy(event);
}

void LinkRoom::start(const Work& work) {
  const Device::Scope scope(*device_);
  for (int i = 0; i < 2; ++i) lanes_.push_back(borrow(*device_));
  const CUstream one = lanes_[0].stream(), other = lanes_[1].stream();
  require(driver(), driver().event_record(start_, one), "cuEventRecord");
  work(*this, one, other);
  require(driver(), driver().event_record(stop_, one), "cuEventRecord");
  require(driver(), driver().event_record(other_stop_, other), "cuEventRecord");
}

double LinkRoom::finish() {
  const Device::Scope scope(*device_);
  float longest = 0;
  for (CUevent event : {stop_, other_stop_}) {
    float milliseconds = 0;
    require(driver(), driver().event_synchronize(event), "cuEventSynchronize");
    require(driver(), driver().event_elapsed_time(&milliseconds, start_, event), "cuEventElapsedTime");
    longest = std::max(longest, milliseconds);
  }
  lanes_.clear();
  return 1e-3 * static_cast<double>(longest);
}

LinkRooms make_link_rooms(std::span<const std::shared_ptr<Device>> devices, std::size_t bytes) {
  LinkRooms rooms;
  for (std::size_t i = 0; i < devices.size(); ++i)
    rooms.push_back(std::make_unique<LinkRoom>(devices[i], i, bytes));
  return rooms;
}

Ceiling::Ceiling(const LinkRooms& rooms, bool on_device, unsigned k, unsigned targets)
    : rooms_(std::span(rooms).first(on_device ? 1 : rooms.size())),
      on_device_(on_device),
      k_(k),
      targets_(targets) {
  if (on_device) {
    add_device_copy();
    return;
  }
  add_copies();
  if (rooms_.size() == 1) add_kernels();
}

/// Rooms start one after the other within microseconds, and each by its own clock.
double Ceiling::time(const Way& way) const {
  for (const auto& room : rooms_) room->start(way.work);
  double longest = 0;
  for (const auto& room : rooms_) longest = std::max(longest, room->finish());
  return longest;
}

void Ceiling::add_copies() {
  const std::size_t chunk = rooms_.front()->bytes() / (k_ + targets_);
  const std::size_t in = chunk * k_;
  const std::size_t out = chunk * targets_;
  ways_.push_back(
      {"copies",
       static_cast<double>(in),
       [in, out](LinkRoom& room, CUstream one, CUstream other) {
         const auto& driver = room.driver();
         require(driver, driver.memcpy_htod_async(room.on_device(), room.pinned(), in, one),
                 "cuMemcpyHtoDAsync");
         require(driver,
                 driver.memcpy_dtoh_async(room.pinned() + in, room.on_device() + room.bytes(), out, other),
                 "cuMemcpyDtoHAsync");
       },
       {}});
  for (const auto& room : rooms_) check_copies(*room, in, out);
}

void Ceiling::check_copies(LinkRoom& room, std::size_t in, std::size_t out) {
  constexpr std::size_t sample = 1024;
  const auto& driver = room.driver();
  const Device::Scope scope(room.device());
  std::vector<std::uint8_t> sent(sample, 0xc5);
  std::vector<std::uint8_t> arrived(sample);
  require(driver, driver.memcpy_htod(room.on_device() + room.bytes() + out - sample, sent.data(), sample),
          "cuMemcpyHtoD");
  room.start(ways_.back().work);
  room.finish();
  require(driver, driver.memcpy_dtoh(arrived.data(), room.on_device() + in - sample, sample), "cuMemcpyDtoH");
  if (std::memcmp(room.pinned() + in - sample, arrived.data(), sample) != 0 ||
      std::memcmp(room.pinned() + in + out - sample, sent.data(), sample) != 0)
    throw std::runtime_error("the copies that measure the link did not move their bytes");
}

void Ceiling::add_kernels() {
  const Device::Scope scope(rooms_.front()->device());
  const std::size_t chunk = rooms_.front()->bytes() / (k_ + targets_) / xor_tile * xor_tile;
  program_ = std::make_unique<kernels::Program>(gf::Matrix(targets_, k_));
  for (unsigned i = 0; i < k_ + targets_; ++i) chunks_.push_back(rooms_.front()->pinned() + i * chunk);
  kernels_ = xor_contestants(rooms_.front()->shared_device());
  for (const auto& kernel : kernels_) {
    const StripeBatch batch{program_.get(), chunk, 1, chunks_, 0};
    kernel->prepare(batch);
    ways_.push_back(
        {kernel->name(),
         static_cast<double>(chunk * k_),
         [batch, &kernel = *kernel](LinkRoom&, CUstream one, CUstream) { kernel.launch(batch, one); },
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
  time(ways_.back());
  for (unsigned t = 0; t < targets_; ++t)
    if (std::memcmp(chunks_[k_ + t] + last, sum.data(), xor_tile) != 0)
      throw std::runtime_error(fmt::format("{}, which measures the link, made wrong bytes", name));
}

void Ceiling::add_device_copy() {
  // A copy reads and writes as much; a code reads k parts and writes `targets` of the same sum.
  const std::size_t bytes = rooms_.front()->bytes();
  ways_.push_back({"device copy",
                   2.0 * static_cast<double>(bytes) * k_ / (k_ + targets_),
                   [bytes](LinkRoom& room, CUstream one, CUstream) {
                     const auto& driver = room.driver();
                     require(driver,
                             driver.memcpy_dtod_async(room.on_device() + bytes, room.on_device(), bytes, one),
                             "cuMemcpyDtoDAsync");
                   },
                   {}});
  time(ways_.back());
}

void Ceiling::sample() {
  for (Way& way : ways_) way.seconds.push_back(time(way));
}

std::vector<std::pair<std::string, double>> Ceiling::ways() const {
  std::vector<std::pair<std::string, double>> list;
  const auto gpus = static_cast<double>(rooms_.size());
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
