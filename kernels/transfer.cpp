// Bytes of the host are copied here, bytes of a device by the back end that has devices.
#include "kernels/transfer.hpp"

#include <algorithm>
#include <cstring>
#ifdef EC_WITH_CUDA
#include "kernels/cuda/submit/device_job.hpp"
#endif

namespace ec::kernels {
namespace {

Status copy(std::span<const Transfer> pieces, Direction direction) noexcept {
  const auto on_device = [](const Transfer& piece) { return piece.residence == Residence::device; };
  if (std::ranges::any_of(pieces, on_device)) {
#ifdef EC_WITH_CUDA
    if (const Status status = cuda::transfer_on_device(pieces, direction); status != Status::ok)
      return status;
#else
    return Status::fault;
#endif
  }
  for (const Transfer& piece : pieces) {
    if (on_device(piece) || piece.bytes == 0) continue;
    const bool fetches = direction == Direction::fetch;
    std::memcpy(fetches ? piece.here : piece.there, fetches ? piece.there : piece.here, piece.bytes);
  }
  return Status::ok;
}

}  // namespace

Status fetch(std::span<const Transfer> pieces) noexcept { return copy(pieces, Direction::fetch); }
Status store(std::span<const Transfer> pieces) noexcept { return copy(pieces, Direction::store); }

}  // namespace ec::kernels
