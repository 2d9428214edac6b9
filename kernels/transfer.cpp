// Bytes of the host are copied here, bytes of a device by the back end that has devices.
#include "kernels/transfer.hpp"

#include <cstring>
#ifdef EC_WITH_CUDA
#include "kernels/cuda/submit/device_job.hpp"
#endif

namespace ec::kernels {
namespace {

Status copy(const Transfer& piece, Direction direction) noexcept {
  if (piece.bytes == 0) return Status::ok;
  if (piece.residence == Residence::device) {
#ifdef EC_WITH_CUDA
    return cuda::transfer_on_device(piece, direction);
#else
    return Status::fault;
#endif
  }
  const bool fetches = direction == Direction::fetch;
  std::memcpy(fetches ? piece.here : piece.there, fetches ? piece.there : piece.here, piece.bytes);
  return Status::ok;
}

}  // namespace

Status fetch(const Transfer& piece) noexcept { return copy(piece, Direction::fetch); }
Status store(const Transfer& piece) noexcept { return copy(piece, Direction::store); }

}  // namespace ec::kernels
