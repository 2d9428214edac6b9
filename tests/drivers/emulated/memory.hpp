// The emulated device's memory: pinned is ordinary memory; device memory has addresses that fault when the
// host touches them, and a second view through which the emulated kernels work.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ec::test::emulated {

/// ordinal: of the device whose context it goes with. Every device sees it.
void* allocate_pinned(std::size_t bytes, int ordinal);
bool free_pinned(void* p);
/// Null when out of memory.
std::uint8_t* allocate_device(std::size_t bytes, int ordinal);
bool free_device(std::uint8_t* p);
/// The accessible address of device memory; any other pointer as it is.
std::uint8_t* view(const void* p);
/// Page-locks ordinary memory of the program for every device, until it is unlocked or the context of this
/// one goes; false if some of it is locked already.
bool register_pinned(void* p, std::size_t bytes, int ordinal);
bool unregister_pinned(void* p);
/// What kind of block holds p, and where it begins; bytes are 0 for an address that the device does not know.
struct Block {
  const std::uint8_t* start;
  std::size_t bytes;
  bool on_device;
  int ordinal = 0;  ///< of the device in whose context it was made
};
Block block_of(const void* p);
/// Whether a kernel on this device can touch all of it: page-locked memory, and the device's own.
bool reachable(const void* p, std::size_t bytes, int ordinal);
/// What a driver does with the memory of a device's context that goes.
void free_everything(int ordinal);

}  // namespace ec::test::emulated
