// The books of the arena: free extents in a tree, blocks by their first page.
#include "plugin/pinned/page_allocator.hpp"

#include <new>

namespace ec::pinned {
namespace {

constexpr std::uint32_t pages_of(std::size_t bytes) {
  return static_cast<std::uint32_t>((bytes + PageAllocator::page_bytes - 1) / PageAllocator::page_bytes);
}

}  // namespace

PageAllocator::PageAllocator(void* start, std::size_t bytes, void* books)
    : start_(static_cast<std::uint8_t*>(start)),
      pages_(pages_of(bytes)),
      extents_(static_cast<Extent*>(books)) {
  give(0, pages_);
}

PageAllocator::Extent& PageAllocator::lay(std::uint32_t first, std::uint32_t pages, Extent::State state) {
  Extent& e = extents_[first];
  e.pages = pages;
  e.state = state;
  e.first = first;
  extents_[first + pages - 1].first = first;
  return e;
}

void PageAllocator::give(std::uint32_t first, std::uint32_t pages) {
  free_.insert(lay(first, pages, Extent::State::free));
}

void PageAllocator::take(Extent& e) {
  free_.erase(FreeExtents::s_iterator_to(e));
  e.state = Extent::State::inside;
}

void* PageAllocator::allocate(std::size_t alignment, std::size_t bytes) {
  const std::size_t arena = std::size_t{pages_} * page_bytes;
  if (bytes == 0 || bytes > arena || alignment > arena) return nullptr;
  const std::uint32_t wanted = pages_of(bytes);
  const std::size_t step = alignment < page_bytes ? page_bytes : alignment;
  // Wherever an extent of this length starts, an aligned block fits into it.
  Extent key{};
  key.pages = wanted + static_cast<std::uint32_t>(step / page_bytes) - 1;
  const auto found =
      free_.lower_bound(key, [](const Extent& a, const Extent& b) { return a.pages < b.pages; });
  if (found == free_.end()) return nullptr;

  Extent& e = *found;
  const std::uint32_t first = index_of(e);
  const std::uint32_t pages = e.pages;
  take(e);
  const auto address = reinterpret_cast<std::uintptr_t>(start_) + std::uintptr_t{first} * page_bytes;
  const auto skipped = static_cast<std::uint32_t>((step - address % step) % step / page_bytes);
  if (skipped != 0) give(first, skipped);
  if (pages > skipped + wanted) give(first + skipped + wanted, pages - skipped - wanted);
  lay(first + skipped, wanted, Extent::State::block);
  return start_ + std::size_t{first + skipped} * page_bytes;
}

PageAllocator::Extent* PageAllocator::block_at(const void* p) const {
  const auto offset = reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(start_);
  if (offset % page_bytes != 0 || offset / page_bytes >= pages_) return nullptr;
  Extent& e = extents_[offset / page_bytes];
  return e.state == Extent::State::block ? &e : nullptr;
}

std::size_t PageAllocator::size_of(const void* p) const {
  const Extent* e = block_at(p);
  return e == nullptr ? 0 : std::size_t{e->pages} * page_bytes;
}

std::size_t PageAllocator::release(void* p) {
  Extent* e = block_at(p);
  if (e == nullptr) return 0;
  const std::uint32_t released = e->pages;
  std::uint32_t first = index_of(*e);
  std::uint32_t end = first + released;
  e->state = Extent::State::inside;
  if (end < pages_ && extents_[end].state == Extent::State::free) {
    Extent& behind = extents_[end];
    end += behind.pages;
    take(behind);
  }
  if (first > 0) {
    Extent& before = extents_[extents_[first - 1].first];
    if (before.state == Extent::State::free) {
      first = index_of(before);
      take(before);
    }
  }
  give(first, end - first);
  return std::size_t{released} * page_bytes;
}

}  // namespace ec::pinned
