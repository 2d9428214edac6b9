#include "tests/emulated_driver/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>

namespace ec::test::emulated {
namespace {

constexpr std::size_t page = 4096;

struct DeviceBlock {
  std::uint8_t* view;
  std::size_t bytes;
};

std::mutex mutex;
std::map<void*, std::size_t> pinned;
std::map<std::uint8_t*, DeviceBlock> device;

std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

}  // namespace

void* allocate_pinned(std::size_t bytes) {
  void* p = std::aligned_alloc(page, whole_pages(bytes));
  std::lock_guard lock(mutex);
  if (p != nullptr) pinned[p] = bytes;
  return p;
}

bool free_pinned(void* p) {
  std::lock_guard lock(mutex);
  if (pinned.erase(p) == 0) return false;
  std::free(p);
  return true;
}

std::uint8_t* allocate_device(std::size_t bytes) {
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
  device[static_cast<std::uint8_t*>(hidden)] = {static_cast<std::uint8_t*>(seen), length};
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

std::size_t pinned_bytes() {
  std::lock_guard lock(mutex);
  std::size_t sum = 0;
  for (const auto& [p, bytes] : pinned) sum += bytes;
  return sum;
}

std::size_t device_bytes() {
  std::lock_guard lock(mutex);
  std::size_t sum = 0;
  for (const auto& [p, block] : device) sum += block.bytes;
  return sum;
}

}  // namespace ec::test::emulated
