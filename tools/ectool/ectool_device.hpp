// The device as ectool sees it: memory of each residence, and a name or the reason for none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "plugin/codec/settings/settings.hpp"
#include "tools/device/memory.hpp"

namespace ec::tools {

/// The device that `node` names, brought up; empty if there is none, with the reason in *why.
std::string device_name(const codec::NodeSettings& node, std::string* why);

/// Chunks of equal length in memory of one residence, filled with bytes that differ. Not a power of two
/// apart.
class Chunks {
 public:
  /// Throws std::runtime_error if there is no such memory.
  Chunks(std::size_t count, std::size_t bytes, kernels::Residence residence);

  kernels::Source source(std::size_t i) const { return {address(i), memory_.residence()}; }
  kernels::Target target(std::size_t i) const { return {address(i), memory_.residence()}; }
  /// What lies there now.
  std::vector<std::uint8_t> read(std::size_t i) const;

 private:
  std::uint8_t* address(std::size_t i) const { return memory_.data() + i * stride_; }

  std::size_t bytes_;
  std::size_t stride_;
  Memory memory_;
};

}  // namespace ec::tools
