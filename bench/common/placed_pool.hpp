// A pool of stripes in memory of any residence, with a twin in ordinary memory to judge by.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/common/pool.hpp"
#include "kernels/region.hpp"
#ifdef EC_WITH_CUDA
#include "tools/device/buffer.hpp"
#endif

namespace ec::bench {

/// The layout of a Pool. Pageable memory is its own twin. Call place() after filling the twin.
class PlacedPool {
 public:
  /// Throws std::runtime_error if there is no such memory on this machine.
  PlacedPool(std::size_t stripes, unsigned chunks, std::size_t chunk_bytes, kernels::Residence residence);

  /// Copies the whole twin to where the chunks lie.
  void place();

  kernels::Source source(std::size_t stripe, unsigned chunk) const {
    return {address(stripe, chunk), residence_};
  }
  kernels::Target target(std::size_t stripe, unsigned chunk) const {
    return {address(stripe, chunk), residence_};
  }
  /// The same chunk in the twin.
  std::uint8_t* twin(std::size_t stripe, unsigned chunk) const { return pool_.chunk(stripe, chunk); }

  void write(std::size_t stripe, unsigned chunk, const std::vector<std::uint8_t>& bytes) const;
  std::vector<std::uint8_t> read(std::size_t stripe, unsigned chunk) const;
  kernels::Residence residence() const { return residence_; }

 private:
  std::uint8_t* address(std::size_t stripe, unsigned chunk) const;
  std::size_t offset(std::size_t stripe, unsigned chunk) const {
    return static_cast<std::size_t>(pool_.chunk(stripe, chunk) - pool_.chunk(0, 0));
  }

  Pool pool_;
  kernels::Residence residence_;
#ifdef EC_WITH_CUDA
  kernels::cuda::Buffer buffer_;
#endif
};

}  // namespace ec::bench
