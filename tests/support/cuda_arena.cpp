#include "tests/support/cuda_arena.hpp"

#include <cstdlib>
#include <vector>

#include "kernels/cuda/memory.hpp"

namespace ec::test {
namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t block_bytes = std::size_t{256} << 20;

/// Hands out one block from its start to its end, and begins again when everything has come back:
/// page-locking memory for each chunk would take longer than all the tests.
class CudaArena final : public Arena {
 public:
  explicit CudaArena(kernels::Residence residence) : residence_(residence) {}

  kernels::Residence residence() const override { return residence_; }

  std::uint8_t* allocate(std::size_t bytes, unsigned misalignment) override {
    if (!block_) block_ = kernels::cuda::Buffer::allocate(block_bytes, residence_);
    if (!block_) return nullptr;
    const std::size_t whole = (bytes + misalignment + alignment) / alignment * alignment;
    if (whole > block_.size() - used_) return nullptr;
    std::uint8_t* data = block_.data() + used_ + misalignment;
    used_ += whole;
    ++lent_;
    return data;
  }
  void release(std::uint8_t*) override {
    if (--lent_ == 0) used_ = 0;
  }
  void upload(std::uint8_t* to, const void* host, std::size_t bytes) override {
    if (bytes != 0 && !block_.upload(offset_of(to), static_cast<const std::uint8_t*>(host), bytes))
      std::abort();
  }
  void download(void* host, const std::uint8_t* from, std::size_t bytes) override {
    if (bytes != 0 && !block_.download(offset_of(from), static_cast<std::uint8_t*>(host), bytes))
      std::abort();
  }
  void fill(std::uint8_t* to, std::uint8_t value, std::size_t bytes) override {
    const std::vector<std::uint8_t> content(bytes, value);
    upload(to, content.data(), bytes);
  }

 private:
  std::size_t offset_of(const std::uint8_t* p) const { return static_cast<std::size_t>(p - block_.data()); }

  kernels::Residence residence_;
  kernels::cuda::Buffer block_;
  std::size_t used_ = 0;
  std::size_t lent_ = 0;
};

}  // namespace

std::unique_ptr<Arena> cuda_arena(kernels::Residence residence) {
  return std::make_unique<CudaArena>(residence);
}

}  // namespace ec::test
