// Bytes of the host are copied here, bytes of a device by its driver.
#include "kernels/transfer.hpp"

#include <cstring>
#ifdef EC_WITH_CUDA
#include <algorithm>
#include <chrono>
#include <thread>

#include "kernels/cuda/device/devices.hpp"
#include "kernels/cuda/submit/device_job.hpp"
#endif

namespace ec::kernels {
namespace {

#ifdef EC_WITH_CUDA
/// Between two looks for a free lane. A check that lacks one of its pieces is thrown away.
constexpr std::chrono::microseconds between_lanes{50};

/// Copies a slab at a time.
cuda::Outcome transfer(cuda::Device& device, const Transfer& piece, bool fetches) noexcept {
  cuda::Runner runner(device);
  const cuda::Driver& driver = device.driver();
  for (std::size_t done = 0; done < piece.bytes && runner.ok();) {
    const std::span<std::uint8_t> slab = runner.lane().slab;
    const std::size_t bytes = std::min(piece.bytes - done, slab.size());
    const auto there = reinterpret_cast<CUdeviceptr>(piece.there) + done;
    const auto enqueue = [&](CUstream stream) {
      const auto r = fetches ? driver.memcpy_dtoh_async(slab.data(), there, bytes, stream)
                             : driver.memcpy_htod_async(there, slab.data(), bytes, stream);
      return cuda::outcome_of(fetches ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync", r);
    };
    if (!fetches) std::memcpy(slab.data(), piece.here + done, bytes);
    if (runner.run({bytes, bytes, !fetches}, enqueue) && fetches)
      std::memcpy(piece.here + done, slab.data(), bytes);
    done += bytes;
  }
  return runner.outcome();
}

/// Where no device is up, none is waited for; else the one that holds the bytes.
Status copy_on_device(const Transfer& piece, bool fetches) noexcept {
  const Source chunk{piece.there, Residence::device};
  const Job job{nullptr, {&chunk, 1}, {}, piece.bytes};
  const auto begun = std::chrono::steady_clock::now();
  for (;; std::this_thread::sleep_for(between_lanes)) {
    if (!cuda::Devices::instance().current()) return Status::fault;
    const auto device = cuda::Devices::instance().holder_of({&job, 1});
    if (!device) return Status::fault;
    const Status status = cuda::settle(*device, transfer(*device, piece, fetches));
    if (status != Status::busy || std::chrono::steady_clock::now() - begun > device->options().deadline)
      return status;
  }
}
#else
Status copy_on_device(const Transfer&, bool) noexcept { return Status::fault; }
#endif

Status copy(const Transfer& piece, bool fetches) noexcept {
  if (piece.bytes == 0) return Status::ok;
  if (piece.residence == Residence::device) return copy_on_device(piece, fetches);
  std::memcpy(fetches ? piece.here : piece.there, fetches ? piece.there : piece.here, piece.bytes);
  return Status::ok;
}

}  // namespace

Status fetch(const Transfer& piece) noexcept { return copy(piece, true); }
Status store(const Transfer& piece) noexcept { return copy(piece, false); }

}  // namespace ec::kernels
