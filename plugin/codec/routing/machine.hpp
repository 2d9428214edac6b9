// What a calibration belongs to, told without touching a device.
#pragma once

#include <string>
#include <vector>

namespace ec::codec {

struct Machine {
  std::string cpu;                ///< its model name, or "unknown"
  std::vector<std::string> gpus;  ///< names of NVIDIA GPUs; empty if there are none or they cannot be told
};

/// This machine, as /proc describes it.
Machine this_machine();

}  // namespace ec::codec
