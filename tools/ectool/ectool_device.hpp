// The device as ectool sees it: memory of each residence, and a name or the reason for none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "plugin/codec/settings/settings.hpp"
#ifdef EC_WITH_CUDA
#include "tools/device/buffer.hpp"
#endif

namespace ec::tools {

/// The device that `node` names, brought up; empty if there is none, with the reason in *why.
std::string device_name(const codec::NodeSettings& node, std::string* why);

/// Chunks of equal length in memory of one residence, filled with bytes that differ. Not a power of two
/// apart.
class Chunks {
 public:
  /// Throws std::runtime_error if there is no such memory.
  Chunks(std::size_t count, std::size_t bytes, kernels::Residence residence);

  kernels::Source source(std::size_t i) const { return {address(i), residence_}; }
  kernels::Target target(std::size_t i) const { return {address(i), residence_}; }
  /// What lies there now.
  std::vector<std::uint8_t> read(std::size_t i) const;

 private:
  std::uint8_t* address(std::size_t i) const { return base_ + i * stride_; }

  std::size_t bytes_;
  std::size_t stride_;
  kernels::Residence residence_;
  std::vector<std::uint8_t> host_;
  std::uint8_t* base_ = nullptr;
#ifdef EC_WITH_CUDA
  kernels::cuda::Buffer buffer_;
#endif
};

}  // namespace ec::tools
