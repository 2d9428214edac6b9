// Pinned and device memory for the tests.
#include <cstdlib>
#include <utility>

#include "tests/common/arena.hpp"
#include "tools/device/buffer.hpp"

namespace ec::test {
namespace {

constexpr std::size_t slab_bytes = std::size_t{64} << 20;
constexpr std::size_t alignment = 256;

/// One slab, because each allocation of such memory costs more than a test case: handed out from the bottom
/// up, and from the bottom again once everything has been released.
class CudaArena final : public Arena {
 public:
  explicit CudaArena(kernels::cuda::Buffer slab) : slab_(std::move(slab)) {}

  kernels::Residence residence() const override { return slab_.residence(); }
  std::uint8_t* allocate(std::size_t bytes, unsigned misalignment) override {
    const std::size_t begin = (used_ + alignment - 1) / alignment * alignment + misalignment;
    if (begin + bytes > slab_.size()) return nullptr;
    used_ = begin + bytes;
    ++live_;
    return slab_.data() + begin;
  }
  void release(std::uint8_t*) override {
    if (--live_ == 0) used_ = 0;
  }
  // A copy that fails would let a test judge bytes that were never there.
  void upload(std::uint8_t* to, const std::uint8_t* host, std::size_t bytes) override {
    if (!slab_.upload(static_cast<std::size_t>(to - slab_.data()), host, bytes)) std::abort();
  }
  void download(std::uint8_t* host, const std::uint8_t* from, std::size_t bytes) override {
    if (!slab_.download(static_cast<std::size_t>(from - slab_.data()), host, bytes)) std::abort();
  }

 private:
  kernels::cuda::Buffer slab_;
  std::size_t used_ = 0;
  std::size_t live_ = 0;
};

}  // namespace

std::unique_ptr<Arena> cuda_arena(kernels::Residence residence) {
  auto slab = kernels::cuda::Buffer::allocate(slab_bytes, residence);
  if (!slab) return nullptr;
  return std::make_unique<CudaArena>(std::move(slab));
}

std::vector<kernels::Residence> residences() {
  return {kernels::Residence::pageable, kernels::Residence::pinned, kernels::Residence::device};
}

}  // namespace ec::test
