#include "tests/drivers/emulated/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>

namespace ec::test::emulated {
namespace {

constexpr std::size_t page = 4096;

struct DeviceBlock {
  std::uint8_t* view;
  std::size_t bytes;
  int ordinal;
};

std::mutex mutex;
struct PinnedBlock {
  std::size_t bytes;
  int ordinal;
};
std::map<void*, PinnedBlock> pinned;
std::map<void*, PinnedBlock> registered;
std::map<std::uint8_t*, DeviceBlock> device;

std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

}  // namespace

void* allocate_pinned(std::size_t bytes, int ordinal) {
  // Not from the program's allocator: the driver's own memory must not come out of an arena that it has
  // locked.
  void* p = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  std::lock_guard lock(mutex);
  pinned[p] = {bytes, ordinal};
  return p;
}

bool free_pinned(void* p) {
  std::lock_guard lock(mutex);
  const auto at = pinned.find(p);
  if (at == pinned.end()) return false;
  munmap(p, whole_pages(at->second.bytes));
  pinned.erase(at);
  return true;
}

std::uint8_t* allocate_device(std::size_t bytes, int ordinal) {
  const std::size_t length = whole_pages(bytes);
  const int file = memfd_create("emulated-device-memory", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  void* hidden = MAP_FAILED;
  void* seen = MAP_FAILED;
  if (ftruncate(file, static_cast<off_t>(length)) == 0) {
    hidden = mmap(nullptr, length, PROT_NONE, MAP_SHARED, file, 0);
    seen = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  if (hidden == MAP_FAILED || seen == MAP_FAILED) return nullptr;
  std::lock_guard lock(mutex);
  device[static_cast<std::uint8_t*>(hidden)] = {static_cast<std::uint8_t*>(seen), length, ordinal};
  return static_cast<std::uint8_t*>(hidden);
}

bool free_device(std::uint8_t* p) {
  std::lock_guard lock(mutex);
  const auto at = device.find(p);
  if (at == device.end()) return false;
  munmap(at->first, at->second.bytes);
  munmap(at->second.view, at->second.bytes);
  device.erase(at);
  return true;
}

std::uint8_t* view(const void* p) {
  auto* bytes = static_cast<std::uint8_t*>(const_cast<void*>(p));
  std::lock_guard lock(mutex);
  auto at = device.upper_bound(bytes);
  if (at == device.begin()) return bytes;
  --at;
  return bytes < at->first + at->second.bytes ? at->second.view + (bytes - at->first) : bytes;
}

bool register_pinned(void* p, std::size_t bytes, int ordinal) {
  if (block_of(p).bytes != 0) return false;
  std::lock_guard lock(mutex);
  registered[p] = {bytes, ordinal};
  return true;
}

bool unregister_pinned(void* p) {
  std::lock_guard lock(mutex);
  return registered.erase(p) != 0;
}

Block block_of(const void* p) {
  const auto* bytes = static_cast<const std::uint8_t*>(p);
  std::lock_guard lock(mutex);
  if (auto at = device.upper_bound(const_cast<std::uint8_t*>(bytes)); at != device.begin()) {
    --at;
    if (bytes < at->first + at->second.bytes) return {at->first, at->second.bytes, true, at->second.ordinal};
  }
  for (const auto* blocks : {&pinned, &registered}) {
    auto at = blocks->upper_bound(const_cast<std::uint8_t*>(bytes));
    if (at == blocks->begin()) continue;
    --at;
    const auto* start = static_cast<const std::uint8_t*>(at->first);
    if (bytes < start + at->second.bytes) return {start, at->second.bytes, false, at->second.ordinal};
  }
  return {nullptr, 0, false};
}

bool reachable(const void* p, std::size_t bytes, int ordinal) {
  const Block block = block_of(p);
  if (block.bytes == 0 || (block.on_device && block.ordinal != ordinal)) return false;
  return bytes <= block.bytes - static_cast<std::size_t>(static_cast<const std::uint8_t*>(p) - block.start);
}

void free_everything(int ordinal) {
  std::lock_guard lock(mutex);
  std::erase_if(pinned, [&](const auto& entry) {
    const auto& [p, block] = entry;
    if (block.ordinal == ordinal) munmap(p, whole_pages(block.bytes));
    return block.ordinal == ordinal;
  });
  std::erase_if(device, [&](const auto& entry) {
    const auto& [p, block] = entry;
    if (block.ordinal != ordinal) return false;
    munmap(p, block.bytes);
    munmap(block.view, block.bytes);
    return true;
  });
  std::erase_if(registered, [&](const auto& entry) { return entry.second.ordinal == ordinal; });
}

}  // namespace ec::test::emulated
