// The emulated device's memory: pinned is ordinary memory; device memory has addresses that fault when the
// host touches them, and a second view through which the emulated kernels work.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ec::test::emulated {

/// Memory that the device knows. registered: ordinary memory of the program, page-locked by it.
struct Block {
  enum class Kind { unknown, pinned, registered, device } kind = Kind::unknown;
  std::uint8_t* start = nullptr;
  std::size_t bytes = 0;
  int ordinal = 0;               ///< of the device in whose context it was made
  std::uint8_t* view = nullptr;  ///< where the host may touch it
};

/// ordinal: of the device whose context it goes with. Every device sees pinned memory. Null when out of
/// memory.
void* allocate_pinned(std::size_t bytes, int ordinal);
std::uint8_t* allocate_device(std::size_t bytes, int ordinal);
/// Page-locks ordinary memory of the program for every device, until it is unlocked or the context of this
/// one goes; false if some of it is locked already.
bool register_pinned(void* p, std::size_t bytes, int ordinal);
/// Gives up the block of that kind that begins at p; false if there is none.
bool release(Block::Kind kind, void* p);
/// The block that holds p; of unknown kind for an address that the device does not know.
Block block_of(const void* p);
/// The accessible address of device memory; any other pointer as it is.
std::uint8_t* view(const void* p);
/// Whether a kernel on this device can touch all of it: page-locked memory, and the device's own.
bool reachable(const void* p, std::size_t bytes, int ordinal);
/// What a driver does with the memory of a device's context that goes.
void free_everything(int ordinal);

}  // namespace ec::test::emulated
