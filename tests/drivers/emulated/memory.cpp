// One map of blocks, by where they begin; never destroyed, for threads use it while a process ends.
#include "tests/drivers/emulated/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>

namespace ec::test::emulated {
namespace {

using Kind = Block::Kind;

constexpr std::size_t page = 4096;

std::mutex mutex;
std::map<std::uint8_t*, Block>& blocks = *new std::map<std::uint8_t*, Block>;

std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

void* add(const Block& block) {
  std::lock_guard lock(mutex);
  blocks[block.start] = block;
  return block.start;
}

void unmap(const Block& block) {
  if (block.kind != Kind::registered) munmap(block.start, whole_pages(block.bytes));
  if (block.kind == Kind::device) munmap(block.view, block.bytes);
}

}  // namespace

void* allocate_pinned(std::size_t bytes, int ordinal) {
  // Not from the program's allocator: the driver's own memory must not come out of an arena that it has
  // locked.
  void* p = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  auto* start = static_cast<std::uint8_t*>(p);
  return add({Kind::pinned, start, bytes, ordinal, start});
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
  auto* start = static_cast<std::uint8_t*>(hidden);
  add({Kind::device, start, length, ordinal, static_cast<std::uint8_t*>(seen)});
  return start;
}

bool register_pinned(void* p, std::size_t bytes, int ordinal) {
  if (block_of(p).kind != Kind::unknown) return false;
  auto* start = static_cast<std::uint8_t*>(p);
  add({Kind::registered, start, bytes, ordinal, start});
  return true;
}

bool release(Kind kind, void* p) {
  std::lock_guard lock(mutex);
  const auto at = blocks.find(static_cast<std::uint8_t*>(p));
  if (at == blocks.end() || at->second.kind != kind) return false;
  unmap(at->second);
  blocks.erase(at);
  return true;
}

Block block_of(const void* p) {
  auto* bytes = static_cast<std::uint8_t*>(const_cast<void*>(p));
  std::lock_guard lock(mutex);
  auto at = blocks.upper_bound(bytes);
  if (at == blocks.begin()) return {};
  --at;
  return bytes < at->first + at->second.bytes ? at->second : Block{};
}

std::uint8_t* view(const void* p) {
  auto* bytes = static_cast<std::uint8_t*>(const_cast<void*>(p));
  const Block block = block_of(p);
  return block.kind == Kind::device ? block.view + (bytes - block.start) : bytes;
}

bool reachable(const void* p, std::size_t bytes, int ordinal) {
  const Block block = block_of(p);
  if (block.kind == Kind::unknown || (block.kind == Kind::device && block.ordinal != ordinal)) return false;
  return bytes <= block.bytes - static_cast<std::size_t>(static_cast<const std::uint8_t*>(p) - block.start);
}

void free_everything(int ordinal) {
  std::lock_guard lock(mutex);
  std::erase_if(blocks, [&](const auto& entry) {
    if (entry.second.ordinal == ordinal) unmap(entry.second);
    return entry.second.ordinal == ordinal;
  });
}

}  // namespace ec::test::emulated
