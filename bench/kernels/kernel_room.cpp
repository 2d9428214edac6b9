#include "bench/kernels/kernel_room.hpp"

#include <algorithm>
#include <stdexcept>

#include "bench/common/pool.hpp"
#include "bench/common/stats.hpp"
#include "kernels/backends.hpp"

namespace ec::bench {
namespace {

using kernels::cuda::Buffer;

constexpr std::size_t alignment = 1024;  // chunk lengths are multiples of it
constexpr std::uint8_t poison_byte = 0xee;

kernels::cuda::Device::Lane borrow(kernels::cuda::Device& device) {
  auto lane = device.borrow_lane();
  if (!lane) throw std::runtime_error("no stream of the device is free");
  return std::move(*lane);
}

Buffer allocate(std::size_t bytes) {
  Buffer buffer = Buffer::allocate(bytes, kernels::Residence::device);
  if (!buffer) throw std::runtime_error("the device has too little memory; see --total");
  return buffer;
}

CUdeviceptr address(const std::uint8_t* p) { return reinterpret_cast<CUdeviceptr>(p); }

/// Repeats a block of odd length, so that no two chunks are alike where that is checked.
void fill(const Buffer& buffer) {
  std::vector<std::uint8_t> random(std::min<std::size_t>(buffer.size(), (std::size_t{64} << 20) - 4093));
  fill_random(random, 1);
  for (std::size_t at = 0; at < buffer.size(); at += random.size())
    if (!buffer.upload(at, random.data(), std::min(random.size(), buffer.size() - at)))
      throw std::runtime_error("the device did not take the sources");
}

}  // namespace

KernelRoom::KernelRoom(std::shared_ptr<kernels::cuda::Device> device, std::size_t sources,
                       std::size_t targets)
    : device_(std::move(device)),
      lane_(borrow(*device_)),
      sources_(allocate(sources)),
      targets_(allocate(targets)) {
  require(driver(), driver().event_create(&start_, 0), "cuEventCreate");
  require(driver(), driver().event_create(&stop_, 0), "cuEventCreate");
  fill(sources_);
}

KernelRoom::~KernelRoom() {
  for (CUevent event : {start_, stop_})
    if (event != nullptr) driver().event_destroy(event);
}

std::span<const StripeBatch> KernelRoom::lay_out(const kernels::Program& program, std::size_t chunk_bytes,
                                                 std::size_t stripes, std::size_t cold_bytes) {
  const std::size_t k = program.sources(), m = program.targets();
  const std::size_t moved = (k + m) * chunk_bytes * stripes;
  const std::size_t count = std::max<std::size_t>(
      1, std::min({(cold_bytes + moved - 1) / moved, sources_.size() / (k * chunk_bytes * stripes),
                   targets_.size() / (m * chunk_bytes * stripes)}));
  chunks_.clear();
  for (std::size_t s = 0; s < count * stripes; ++s) {
    for (std::size_t i = 0; i < k; ++i) chunks_.push_back(sources_.data() + (s * k + i) * chunk_bytes);
    for (std::size_t i = 0; i < m; ++i) chunks_.push_back(targets_.data() + (s * m + i) * chunk_bytes);
  }
  table_ = allocate(8 * chunks_.size());
  if (!table_.upload(0, reinterpret_cast<const std::uint8_t*>(chunks_.data()), 8 * chunks_.size()))
    throw std::runtime_error("the device did not take the table of chunks");
  batches_.clear();
  const std::size_t entries = stripes * (k + m);
  for (std::size_t b = 0; b < count; ++b)
    batches_.push_back({&program, chunk_bytes, stripes, std::span(chunks_).subspan(b * entries, entries),
                        address(table_.data()) + 8 * b * entries});
  return batches_;
}

void KernelRoom::poison(const StripeBatch& batch) {
  // The targets of a batch lie one behind the other.
  require(driver(),
          driver().memset_d8_async(address(batch.chunks[batch.sources()]), poison_byte,
                                   batch.chunk_bytes * batch.targets() * batch.stripes, lane_.stream()),
          "cuMemsetD8Async");
  wait();
}

std::vector<std::uint8_t> KernelRoom::download(const std::uint8_t* from, std::size_t bytes) {
  std::vector<std::uint8_t> host(bytes);
  require(driver(), driver().memcpy_dtoh(host.data(), address(from), bytes), "cuMemcpyDtoH");
  return host;
}

bool KernelRoom::verify_range(const StripeBatch& batch, std::size_t stripe, std::size_t from,
                              std::size_t bytes) {
  std::vector<std::vector<std::uint8_t>> held, wanted;
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
  for (unsigned i = 0; i < batch.width(); ++i)
    held.push_back(download(batch.chunks[stripe * batch.width() + i] + from, bytes));
  for (unsigned i = 0; i < batch.sources(); ++i) sources.push_back({held[i].data()});
  for (unsigned i = 0; i < batch.targets(); ++i) wanted.emplace_back(bytes);
  for (auto& w : wanted) targets.push_back({w.data()});
  if (kernels::find_backend("reference")->transform({batch.program, sources, targets, bytes}) !=
      kernels::Status::ok)
    throw std::runtime_error("the reference back end does not code the sample");
  return std::equal(wanted.begin(), wanted.end(), held.begin() + batch.sources());
}

bool KernelRoom::verify(const StripeBatch& batch) {
  wait();
  const std::size_t bytes = std::min<std::size_t>(batch.chunk_bytes, 2048);
  const std::size_t last = batch.chunk_bytes - bytes;
  const std::size_t samples = std::min<std::size_t>(batch.stripes, 16);
  for (std::size_t i = 0; i < samples; ++i) {
    const std::size_t stripe = samples == 1 ? 0 : i * (batch.stripes - 1) / (samples - 1);
    for (const std::size_t from : {std::size_t{0}, last / 3 / 16 * 16, last / 2, last * 7 / 8 / 4 * 4, last})
      if (!verify_range(batch, stripe, from, bytes)) return false;
  }
  return true;
}

KernelTiming KernelRoom::time(unsigned runs, const std::function<void(CUstream)>& work) {
  work(lane_.stream());
  work(lane_.stream());
  std::vector<double> seconds;
  for (unsigned i = 0; i < runs; ++i) {
    require(driver(), driver().event_record(start_, lane_.stream()), "cuEventRecord");
    work(lane_.stream());
    require(driver(), driver().event_record(stop_, lane_.stream()), "cuEventRecord");
    require(driver(), driver().event_synchronize(stop_), "cuEventSynchronize");
    float milliseconds = 0;
    require(driver(), driver().event_elapsed_time(&milliseconds, start_, stop_), "cuEventElapsedTime");
    seconds.push_back(1e-3 * static_cast<double>(milliseconds));
  }
  return {median(seconds), noise_percent(seconds)};
}

double KernelRoom::copy_rate(unsigned runs) {
  double best = 0;
  const std::size_t most = std::min(sources_.size(), targets_.size()) / alignment * alignment;
  for (const std::size_t wanted : {std::size_t{512} << 20, std::size_t{768} << 20}) {
    const std::size_t bytes = std::min(wanted, most);
    const auto t = time(runs, [&](CUstream stream) {
      require(driver(),
              driver().memcpy_dtod_async(address(targets_.data()), address(sources_.data()), bytes, stream),
              "cuMemcpyDtoDAsync");
    });
    best = std::max(best, 2.0 * static_cast<double>(bytes) / t.seconds);
  }
  return best;
}

void KernelRoom::wait() {
  require(driver(), driver().event_record(stop_, lane_.stream()), "cuEventRecord");
  require(driver(), driver().event_synchronize(stop_), "cuEventSynchronize");
}

}  // namespace ec::bench
