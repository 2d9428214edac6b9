// The settings of the node as the device room takes them; for builds with that room only.
#pragma once

#include "kernels/cuda/options.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::codec {

/// Everything of `node` that concerns the device. No log: whoever has one adds it.
inline kernels::cuda::Options device_options(const NodeSettings& node) {
  kernels::cuda::Options options;
  options.devices = node.devices;
  options.deadline = node.deadline;
  options.retry_after = node.retry_after;
  options.staging_bytes = node.staging_bytes;
  options.pinned_bytes = node.pinned_bytes;
  options.pinned_threshold = node.pinned_threshold;
  return options;
}

}  // namespace ec::codec
