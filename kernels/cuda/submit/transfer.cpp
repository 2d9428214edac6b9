#include "kernels/cuda/submit/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/device/devices.hpp"
#include "kernels/cuda/device/stream_wait.hpp"

namespace ec::kernels::cuda {
namespace {

/// Staging memory of one transfer: enough that a copy costs more than its start, and a part that leaves some
/// to jobs.
constexpr std::size_t largest_staging = std::size_t{4} << 20;
constexpr std::size_t staging_share = 8;

/// A part of a piece, and where it lies in the staging memory meanwhile.
struct Part {
  std::uint8_t* there;
  std::uint8_t* here;
  std::size_t bytes;
};

class TransferJob {
 public:
  TransferJob(const std::shared_ptr<Device>& device, std::span<const Transfer> pieces, bool fetches)
      : device_(device), fetches_(fetches) {
    for (const Transfer& piece : pieces)
      if (piece.residence == Residence::device && piece.bytes != 0)
        parts_.push_back({piece.there, piece.here, piece.bytes});
  }

  Outcome run() {
    std::size_t total = 0;
    for (const Part& part : parts_) total += part.bytes;
    if (total == 0) return {};
    const Device::Scope scope(*device_);
    if (scope.result() != CUDA_SUCCESS) return fault(device_->driver(), "cuCtxPushCurrent", scope.result());
    auto lane = device_->borrow_lane();
    PinnedPool& pool = device_->pool();
    if (lane) staging_ = pool.allocate(std::min({total, largest_staging, pool.limit() / staging_share}));
    if (!staging_) return {Status::busy, {}, false};
    for (std::size_t next = 0; next < parts_.size();)
      if (const Outcome outcome = fill_and_move(*lane, &next); outcome.status != Status::ok) return outcome;
    return {};
  }

 private:
  /// What fits the staging memory, from parts_[*next] on.
  std::vector<Part> take(std::size_t* next) {
    std::vector<Part> taken;
    for (std::size_t room = staging_.size(); room > 0 && *next < parts_.size();) {
      Part& part = parts_[*next];
      const std::size_t bytes = std::min(room, part.bytes);
      taken.push_back({part.there, part.here, bytes});
      part = {part.there + bytes, part.here + bytes, part.bytes - bytes};
      room -= bytes;
      if (part.bytes == 0) ++*next;
    }
    return taken;
  }

  Outcome fill_and_move(Device::Lane& lane, std::size_t* next) {
    const auto taken = take(next);
    std::size_t bytes = 0;
    for (const Part& part : taken) bytes += part.bytes;
    LinkClock::Flight flight(device_->link_clock(), bytes);
    std::uint8_t* staged = staging_.data();
    Outcome enqueued;
    for (const Part& part : taken) {
      if (!fetches_) std::memcpy(staged, part.here, part.bytes);
      if (enqueued.status == Status::ok) enqueued = enqueue(part, staged, lane.stream());
      staged += part.bytes;
    }
    const Outcome waited = wait_for(*device_, lane, flight, {.bytes = bytes, .writes_in_place = !fetches_});
    if (waited.gave_up) staging_.quarantine();
    if (waited.status != Status::ok) return waited;
    if (enqueued.status != Status::ok) return enqueued;
    staged = staging_.data();
    for (const Part& part : taken) {
      if (fetches_) std::memcpy(part.here, staged, part.bytes);
      staged += part.bytes;
    }
    return {};
  }

  Outcome enqueue(const Part& part, std::uint8_t* staged, CUstream stream) const {
    const Driver& driver = device_->driver();
    const auto there = reinterpret_cast<CUdeviceptr>(part.there);
    const CUresult r = fetches_ ? driver.memcpy_dtoh_async(staged, there, part.bytes, stream)
                                : driver.memcpy_htod_async(there, staged, part.bytes, stream);
    return r == CUDA_SUCCESS ? Outcome{}
                             : fault(driver, fetches_ ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync", r);
  }

  const std::shared_ptr<Device>& device_;
  const bool fetches_;
  std::vector<Part> parts_;
  PinnedBlock staging_;
};

Status transfer(std::span<const Transfer> pieces, bool fetches) noexcept try {
  if (!Devices::instance().current()) return Status::fault;
  std::vector<Source> chunks;
  for (const Transfer& piece : pieces) chunks.push_back({piece.there, piece.residence});
  const Job job{nullptr, chunks, {}, 0};
  std::string why;
  const auto device = Devices::instance().holder_of({&job, 1}, &why);
  if (!device) return Status::fault;
  const Outcome outcome = TransferJob(device, pieces, fetches).run();
  if (outcome.status == Status::fault || outcome.status == Status::hung)
    Devices::instance().latch(device, outcome.reason);
  return outcome.status;
} catch (const std::bad_alloc&) {
  return Status::busy;
}

}  // namespace

Status fetch_from_device(std::span<const Transfer> pieces) noexcept { return transfer(pieces, true); }
Status store_on_device(std::span<const Transfer> pieces) noexcept { return transfer(pieces, false); }

}  // namespace ec::kernels::cuda
