#include "bench/common/placed_pool.hpp"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace ec::bench {

using kernels::Residence;

PlacedPool::PlacedPool(std::size_t stripes, unsigned chunks, std::size_t chunk_bytes, Residence residence)
    : pool_(stripes, chunks, chunk_bytes), residence_(residence) {
  if (residence == Residence::pageable) return;
#ifdef EC_WITH_CUDA
  buffer_ = kernels::cuda::Buffer::allocate(pool_.bytes().size(), residence);
  if (buffer_) return;
#endif
  throw std::runtime_error(
      fmt::format("no {} memory of {} bytes on this machine", name(residence), pool_.bytes().size()));
}

void PlacedPool::place() {
#ifdef EC_WITH_CUDA
  if (residence_ != Residence::pageable && !buffer_.upload(0, pool_.bytes().data(), pool_.bytes().size()))
    throw std::runtime_error("cannot copy to the device");
#endif
}

std::uint8_t* PlacedPool::address(std::size_t stripe, unsigned chunk) const {
#ifdef EC_WITH_CUDA
  if (residence_ != Residence::pageable) return buffer_.data() + offset(stripe, chunk);
#endif
  return pool_.chunk(stripe, chunk);
}

void PlacedPool::write(std::size_t stripe, unsigned chunk, const std::vector<std::uint8_t>& bytes) const {
#ifdef EC_WITH_CUDA
  if (residence_ != Residence::pageable) {
    if (!buffer_.upload(offset(stripe, chunk), bytes.data(), bytes.size()))
      throw std::runtime_error("cannot copy to the device");
    return;
  }
#endif
  std::memcpy(pool_.chunk(stripe, chunk), bytes.data(), bytes.size());
}

std::vector<std::uint8_t> PlacedPool::read(std::size_t stripe, unsigned chunk) const {
  std::vector<std::uint8_t> bytes(pool_.chunk_bytes());
#ifdef EC_WITH_CUDA
  if (residence_ != Residence::pageable) {
    if (!buffer_.download(offset(stripe, chunk), bytes.data(), bytes.size()))
      throw std::runtime_error("cannot copy from the device");
    return bytes;
  }
#endif
  std::memcpy(bytes.data(), pool_.chunk(stripe, chunk), bytes.size());
  return bytes;
}

}  // namespace ec::bench
