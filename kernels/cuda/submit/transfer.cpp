// Device memory to the host and back.
#include "kernels/cuda/submit/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cuda/device/devices.hpp"
#include "kernels/cuda/submit/runner.hpp"

namespace ec::kernels::cuda {
namespace {

/// A part of a piece, and where it lies in the slab meanwhile.
struct Part {
  CUdeviceptr there;
  std::uint8_t* here;
  std::size_t at;
  std::size_t bytes;
};

/// The pieces that lie on the device, cut so that the parts of a submission fill the slab: a submission ends
/// where the next part lies at the start of the slab.
std::vector<Part> cut(std::span<const Transfer> pieces, std::size_t slab) {
  std::vector<Part> parts;
  std::size_t at = 0;
  for (const Transfer& piece : pieces)
    for (std::size_t done = 0; piece.residence == Residence::device && done < piece.bytes;) {
      const std::size_t bytes = std::min(piece.bytes - done, slab - at);
      parts.push_back({reinterpret_cast<CUdeviceptr>(piece.there) + done, piece.here + done, at, bytes});
      done += bytes;
      at = (at + bytes) % slab;
    }
  return parts;
}

Outcome transfer(Device& device, std::span<const Transfer> pieces, Direction direction) {
  Runner runner(device);
  if (!runner.ok()) return runner.outcome();
  const Driver& driver = device.driver();
  const bool fetches = direction == Direction::fetch;
  const std::span<std::uint8_t> slab = runner.lane().slab();
  const std::vector<Part> parts = cut(pieces, slab.size());
  for (auto first = parts.begin(); first != parts.end() && runner.ok();) {
    const auto end = std::find_if(first + 1, parts.end(), [](const Part& part) { return part.at == 0; });
    const std::span submission(first, end);
    const std::size_t bytes = submission.back().at + submission.back().bytes;
    const auto enqueue = [&](CUstream stream) -> Outcome {
      for (const Part& part : submission) {
        std::uint8_t* staged = slab.data() + part.at;
        if (!fetches) std::memcpy(staged, part.here, part.bytes);
        const auto r = fetches ? driver.memcpy_dtoh_async(staged, part.there, part.bytes, stream)
                               : driver.memcpy_htod_async(part.there, staged, part.bytes, stream);
        if (r != CUDA_SUCCESS)
          return outcome_of(driver, fetches ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync", r);
      }
      return {};
    };
    const bool ok = runner.run({bytes, bytes, !fetches}, enqueue);
    for (const Part& part : submission)
      if (ok && fetches) std::memcpy(part.here, slab.data() + part.at, part.bytes);
    first = end;
  }
  return runner.outcome();
}

}  // namespace

Status transfer_on_device(std::span<const Transfer> pieces, Direction direction) noexcept try {
  if (!Devices::instance().current()) return Status::fault;
  std::vector<Source> chunks;
  for (const Transfer& piece : pieces) chunks.push_back({piece.there, piece.residence});
  const Job job{nullptr, chunks, {}, 0};
  std::string why;
  const auto device = Devices::instance().holder_of({&job, 1}, &why);
  if (!device) return Status::fault;
  const Outcome outcome = transfer(*device, pieces, direction);
  if (outcome.status == Status::fault || outcome.status == Status::hung)
    Devices::instance().latch(device, outcome.reason);
  return outcome.status;
} catch (const std::bad_alloc&) {
  return Status::busy;
}

}  // namespace ec::kernels::cuda
