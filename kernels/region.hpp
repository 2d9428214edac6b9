// Residence: where the bytes of a chunk lie. And the two views of chunks that every kernel works on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ec::kernels {

/// pageable: ordinary host memory. pinned: page-locked host memory that the device can address in place.
/// device: memory of the device, which the host must not touch.
enum class Residence : int { pageable, pinned, device };

constexpr std::string_view name(Residence r) {
  return r == Residence::pageable ? "pageable" : r == Residence::pinned ? "pinned" : "device";
}

/// One chunk that is read. Does not own; any alignment.
struct Source {
  const std::uint8_t* data = nullptr;
  Residence residence = Residence::pageable;
};

/// One chunk that is written. Does not own; any alignment. Must overlap no source and no other target.
struct Target {
  std::uint8_t* data = nullptr;
  Residence residence = Residence::pageable;
};

}  // namespace ec::kernels
