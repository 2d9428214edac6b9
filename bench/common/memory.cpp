// Allocates pageable, pinned or device memory.
#include "bench/common/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

namespace ec::bench {
namespace {

using kernels::Residence;

constexpr std::size_t page = 4096;

}  // namespace

void Memory::Free::operator()(std::uint8_t* p) const { ::operator delete (p, std::align_val_t{page}); }

Memory::Memory(Residence residence, std::size_t bytes, [[maybe_unused]] std::size_t device_index)
    : residence_(residence), size_(bytes) {
  if (residence == Residence::pageable) {
    pageable_.reset(static_cast<std::uint8_t*>(::operator new (bytes, std::align_val_t{page})));
    data_ = pageable_.get();
    return;
  }
#ifdef EC_WITH_CUDA
  buffer_ = kernels::cuda::Buffer::allocate(bytes, residence, device_index);
  if (buffer_) data_ = buffer_.data();
#endif
  if (data_ == nullptr)
    throw std::runtime_error(
        fmt::format("no {} memory of {} bytes on this machine", kernels::name(residence), bytes));
}

void Memory::write(std::uint8_t* to, std::span<const std::uint8_t> from) const {
  if (residence_ != Residence::device) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
#ifdef EC_WITH_CUDA
  if (!buffer_.upload(static_cast<std::size_t>(to - data()), from.data(), from.size()))
    throw std::runtime_error("cannot copy to the device");
#endif
}

void Memory::read(const std::uint8_t* from, std::span<std::uint8_t> to) const {
  if (residence_ != Residence::device) {
    std::memcpy(to.data(), from, to.size());
    return;
  }
#ifdef EC_WITH_CUDA
  if (!buffer_.download(static_cast<std::size_t>(from - data()), to.data(), to.size()))
    throw std::runtime_error("cannot copy from the device");
#endif
}

}  // namespace ec::bench
