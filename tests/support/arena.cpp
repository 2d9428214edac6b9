#include "tests/support/arena.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#ifdef EC_WITH_CUDA
#include "tests/support/cuda_arena.hpp"
#endif

namespace ec::test {
namespace {

constexpr std::size_t alignment = 256;

/// What every kind of memory that the host can touch shares.
class HostArena : public Arena {
 public:
  kernels::Residence residence() const override { return kernels::Residence::pageable; }
  void upload(std::uint8_t* to, const void* host, std::size_t bytes) override {
    if (bytes != 0) std::memcpy(to, host, bytes);
  }
  void download(void* host, const std::uint8_t* from, std::size_t bytes) override {
    if (bytes != 0) std::memcpy(host, from, bytes);
  }
  void fill(std::uint8_t* to, std::uint8_t value, std::size_t bytes) override {
    if (bytes != 0) std::memset(to, value, bytes);
  }
};

class PageableArena final : public HostArena {
 public:
  std::uint8_t* allocate(std::size_t bytes, unsigned misalignment) override {
    const std::size_t whole = (bytes + misalignment + alignment) / alignment * alignment;
    auto* base = static_cast<std::uint8_t*>(std::aligned_alloc(alignment, whole));
    return base == nullptr ? nullptr : base + misalignment;
  }
  void release(std::uint8_t* data) override {
    std::free(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(data) / alignment * alignment));
  }
};

class PageEdgeArena final : public HostArena {
 public:
  bool ends_at_edge() const override { return true; }
  std::uint8_t* allocate(std::size_t bytes, unsigned) override {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t usable = (bytes + page - 1) / page * page;
    void* base = mmap(nullptr, usable + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    auto* begin = static_cast<std::uint8_t*>(base);
    if (mprotect(begin + usable, page, PROT_NONE) != 0) std::abort();
    mappings_[begin + usable - bytes] = {begin, usable + page};
    return begin + usable - bytes;
  }
  void release(std::uint8_t* data) override {
    const auto at = mappings_.find(data);
    munmap(at->second.first, at->second.second);
    mappings_.erase(at);
  }

 private:
  std::map<std::uint8_t*, std::pair<std::uint8_t*, std::size_t>> mappings_;
};

}  // namespace

std::unique_ptr<Arena> pageable_arena() { return std::make_unique<PageableArena>(); }
std::unique_ptr<Arena> page_edge_arena() { return std::make_unique<PageEdgeArena>(); }

std::vector<Arena*> arenas() {
  static const auto pageable = pageable_arena();
#ifdef EC_WITH_CUDA
  static const auto pinned = cuda_arena(kernels::Residence::pinned);
  static const auto device = cuda_arena(kernels::Residence::device);
  return {pageable.get(), pinned.get(), device.get()};
#else
  return {pageable.get()};
#endif
}

bool available(Arena& arena) {
  std::uint8_t* data = arena.allocate(1, 0);
  if (data == nullptr) return false;
  arena.release(data);
  return true;
}

GuardedChunk::GuardedChunk(Arena& arena, std::size_t bytes, unsigned misalignment)
    : arena_(&arena),
      rear_guard_bytes_(arena.ends_at_edge() ? 0 : guard_bytes),
      block_(arena.allocate(guard_bytes + bytes + rear_guard_bytes_,
                            (misalignment + alignment - guard_bytes) % alignment)),
      data_(block_ + guard_bytes),
      bytes_(bytes) {
  if (block_ == nullptr) throw std::bad_alloc();
  arena_->fill(block_, guard_value, guard_bytes + bytes_ + rear_guard_bytes_);
}

GuardedChunk::GuardedChunk(GuardedChunk&& other) noexcept
    : arena_(other.arena_),
      rear_guard_bytes_(other.rear_guard_bytes_),
      block_(std::exchange(other.block_, nullptr)),
      data_(other.data_),
      bytes_(other.bytes_) {}

GuardedChunk::~GuardedChunk() {
  if (block_ != nullptr) arena_->release(block_);
}

void GuardedChunk::write(std::span<const std::uint8_t> content) {
  arena_->upload(data_, content.data(), std::min(content.size(), bytes_));
}

std::vector<std::uint8_t> GuardedChunk::read() const {
  std::vector<std::uint8_t> content(bytes_);
  arena_->download(content.data(), data_, bytes_);
  return content;
}

bool GuardedChunk::guards_intact() const {
  std::vector<std::uint8_t> guards(guard_bytes + rear_guard_bytes_);
  arena_->download(guards.data(), block_, guard_bytes);
  arena_->download(guards.data() + guard_bytes, data_ + bytes_, rear_guard_bytes_);
  return std::ranges::all_of(guards, [](auto byte) { return byte == guard_value; });
}

}  // namespace ec::test
