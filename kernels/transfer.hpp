// Bytes of any residence brought to the host, and back: for checking results, not for coding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.hpp"

namespace ec::kernels {

/// Two pieces of memory of equal length; owns neither. `here` is ordinary host memory.
struct Transfer {
  std::uint8_t* there = nullptr;
  Residence residence = Residence::pageable;
  std::uint8_t* here = nullptr;
  std::size_t bytes = 0;
};

/// Copies `there` to `here`, or back; done when it returns, within the device's deadline. Thread safe. ok:
/// done; always so for host memory. busy: the device had no room within its deadline; nothing was written.
/// fault: there is no device, or it failed and is latched off: the memory to be written holds anything. hung:
/// like fault, but a write to device memory may still come.
Status fetch(const Transfer& piece) noexcept;
Status store(const Transfer& piece) noexcept;

}  // namespace ec::kernels
