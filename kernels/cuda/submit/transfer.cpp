// Device memory to the host and back.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "kernels/cuda/device/devices.hpp"
#include "kernels/cuda/submit/device_job.hpp"

namespace ec::kernels::cuda {
namespace {

/// Between two looks for a free lane. A check of several pieces is nothing without each of them.
constexpr std::chrono::microseconds between_lanes{50};

/// Copies a slab at a time.
Outcome transfer(Device& device, const Transfer& piece, Direction direction) noexcept {
  Runner runner(device);
  const Driver& driver = device.driver();
  const bool fetches = direction == Direction::fetch;
  for (std::size_t done = 0; done < piece.bytes && runner.ok();) {
    const std::span<std::uint8_t> slab = runner.lane().slab;
    const std::size_t bytes = std::min(piece.bytes - done, slab.size());
    const auto there = reinterpret_cast<CUdeviceptr>(piece.there) + done;
    const auto enqueue = [&](CUstream stream) {
      return fetches ? outcome_of("cuMemcpyDtoHAsync",
                                  driver.memcpy_dtoh_async(slab.data(), there, bytes, stream))
                     : outcome_of("cuMemcpyHtoDAsync",
                                  driver.memcpy_htod_async(there, slab.data(), bytes, stream));
    };
    if (!fetches) std::memcpy(slab.data(), piece.here + done, bytes);
    if (runner.run({bytes, bytes, !fetches}, enqueue) && fetches)
      std::memcpy(piece.here + done, slab.data(), bytes);
    done += bytes;
  }
  return runner.outcome();
}

}  // namespace

Status transfer_on_device(const Transfer& piece, Direction direction) noexcept {
  const Source chunk{piece.there, Residence::device};
  const Job job{nullptr, {&chunk, 1}, {}, piece.bytes};
  const auto begun = std::chrono::steady_clock::now();
  for (;; std::this_thread::sleep_for(between_lanes)) {
    if (!Devices::instance().current()) return Status::fault;
    Reason why;
    const auto device = Devices::instance().holder_of({&job, 1}, &why);
    if (!device) return Status::fault;
    const Status status = settle(*device, transfer(*device, piece, direction));
    if (status != Status::busy || std::chrono::steady_clock::now() - begun > device->options().deadline)
      return status;
  }
}

}  // namespace ec::kernels::cuda
