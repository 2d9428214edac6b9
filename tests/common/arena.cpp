// Ordinary, page-edge, pinned and device memory, and chunks with guards in it.
#include "tests/common/arena.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <new>
#include <utility>

#ifdef EC_WITH_CUDA
#include "tools/device/buffer.hpp"
#endif

namespace ec::test {
namespace {

constexpr std::size_t alignment = 256;

/// What every kind of memory that the host can touch shares.
class HostArena : public Arena {
 public:
  kernels::Residence residence() const override { return kernels::Residence::pageable; }
  void upload(std::uint8_t* to, const std::uint8_t* host, std::size_t bytes) override {
    std::copy_n(host, bytes, to);
  }
  void download(std::uint8_t* host, const std::uint8_t* from, std::size_t bytes) override {
    std::copy_n(from, bytes, host);
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

#ifdef EC_WITH_CUDA

constexpr std::size_t slab_bytes = std::size_t{72} << 20;

/// One slab, because each allocation of such memory costs more than a test case: handed out from the bottom
/// up, and from the bottom again once everything has been released.
class CudaArena final : public Arena {
 public:
  explicit CudaArena(tools::Buffer slab) : slab_(std::move(slab)) {}

  kernels::Residence residence() const override { return slab_.residence(); }
  std::uint8_t* allocate(std::size_t bytes, unsigned misalignment) override {
    const std::size_t begin = (used_ + alignment - 1) / alignment * alignment + misalignment;
    if (begin + bytes > slab_.size()) return nullptr;
    used_ = begin + bytes;
    ++live_;
    return slab_.data() + begin;
  }
  void release(std::uint8_t*) override {
    if (--live_ == 0) used_ = 0;
  }
  // A copy that fails would let a test judge bytes that were never there.
  void upload(std::uint8_t* to, const std::uint8_t* host, std::size_t bytes) override {
    if (!slab_.upload(to, host, bytes)) std::abort();
  }
  void download(std::uint8_t* host, const std::uint8_t* from, std::size_t bytes) override {
    if (!slab_.download(host, from, bytes)) std::abort();
  }

 private:
  tools::Buffer slab_;
  std::size_t used_ = 0;
  std::size_t live_ = 0;
};

#endif

}  // namespace

std::unique_ptr<Arena> pageable_arena() { return std::make_unique<PageableArena>(); }
std::unique_ptr<Arena> page_edge_arena() { return std::make_unique<PageEdgeArena>(); }

std::unique_ptr<Arena> cuda_arena([[maybe_unused]] kernels::Residence residence) {
#ifdef EC_WITH_CUDA
  if (auto slab = tools::Buffer::allocate(slab_bytes, residence))
    return std::make_unique<CudaArena>(std::move(slab));
#endif
  return nullptr;
}

std::vector<kernels::Residence> residences() {
#ifdef EC_WITH_CUDA
  return {kernels::Residence::pageable, kernels::Residence::pinned, kernels::Residence::device};
#else
  return {kernels::Residence::pageable};
#endif
}

Arena* arena_of(kernels::Residence residence) {
  // Never destroyed: at exit the driver may be gone before them.
  static Arena* const kept[] = {pageable_arena().release(), cuda_arena(kernels::Residence::pinned).release(),
                                cuda_arena(kernels::Residence::device).release()};
  return kept[static_cast<std::size_t>(residence)];
}

GuardedChunk::GuardedChunk(Arena& arena, const std::vector<std::uint8_t>& content, unsigned misalignment)
    : arena_(&arena),
      bytes_(content.size()),
      rear_guard_bytes_(arena.ends_at_edge() ? 0 : guard_bytes),
      block_(arena.allocate(guard_bytes + bytes_ + rear_guard_bytes_,
                            (misalignment + alignment - guard_bytes) % alignment)) {
  if (block_ == nullptr) throw std::bad_alloc();
  std::vector<std::uint8_t> image(guard_bytes + bytes_ + rear_guard_bytes_, guard_value);
  std::ranges::copy(content, image.begin() + guard_bytes);
  arena_->upload(block_, image.data(), image.size());
}

GuardedChunk::GuardedChunk(GuardedChunk&& other) noexcept
    : arena_(other.arena_),
      bytes_(other.bytes_),
      rear_guard_bytes_(other.rear_guard_bytes_),
      block_(std::exchange(other.block_, nullptr)) {}

GuardedChunk::~GuardedChunk() {
  if (block_ != nullptr) arena_->release(block_);
}

void GuardedChunk::scramble() {
  const std::vector<std::uint8_t> image(guard_bytes + bytes_ + rear_guard_bytes_, guard_value);
  arena_->upload(block_, image.data(), image.size());
}

GuardedChunk::State GuardedChunk::inspect() const {
  std::vector<std::uint8_t> image(guard_bytes + bytes_ + rear_guard_bytes_);
  arena_->download(image.data(), block_, image.size());
  const auto content = image.begin() + guard_bytes;
  const auto rear = content + static_cast<std::ptrdiff_t>(bytes_);
  const auto is_guard = [](std::uint8_t byte) { return byte == guard_value; };
  return {{content, rear},
          std::all_of(image.begin(), content, is_guard) && std::all_of(rear, image.end(), is_guard)};
}

}  // namespace ec::test
