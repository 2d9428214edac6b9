// Blocks out of one range of pages: best fit, neighbours joined again, and all bookkeeping outside the range,
// so that a program that writes past its block cannot break it. Free extents are in a tree, blocks are found
// by their first page.
#pragma once

#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <cstdint>

namespace ec::pinned {

/// Not thread safe. Costs a search in a tree of the free extents and never touches the range itself.
class PageAllocator {
 public:
  /// The alignment of every block; lengths are rounded up to a multiple of it.
  static constexpr std::size_t page_bytes = 4096;
  /// A PageAllocator of `bytes` needs this much zeroed memory for its books.
  static constexpr std::size_t book_bytes(std::size_t bytes) { return bytes / page_bytes * sizeof(Extent); }

  /// start, bytes: whole pages. books: book_bytes(bytes), zeroed; both must outlive the allocator.
  PageAllocator(void* start, std::size_t bytes, void* books)
      : start_(static_cast<std::uint8_t*>(start)),
        pages_(pages_of(bytes)),
        extents_(static_cast<Extent*>(books)) {
    give(0, pages_);
  }
  PageAllocator(const PageAllocator&) = delete;
  PageAllocator& operator=(const PageAllocator&) = delete;

  /// A block of at least `bytes`, aligned to `alignment` (a power of two) or to a page if that is more. Null
  /// if no free extent is long enough, and for 0 bytes.
  void* allocate(std::size_t alignment, std::size_t bytes) {
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
  /// Bytes of the block that starts at p; 0 if no block does.
  std::size_t size_of(const void* p) const {
    const Extent* e = block_at(p);
    return e == nullptr ? 0 : std::size_t{e->pages} * page_bytes;
  }
  /// Frees the block that starts at p; returns its bytes, or 0 if no block does.
  std::size_t release(void* p) {
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

 private:
  /// A run of pages, free or a block, at the index of its first page. At the index of its last page, `first`
  /// is kept too: the run behind finds this run by it.
  struct Extent : boost::intrusive::set_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>,
                                                  boost::intrusive::optimize_size<true>> {
    enum class State : std::uint8_t { inside, free, block };
    std::uint32_t pages;
    std::uint32_t first;
    State state;
  };
  /// By length, then by address: blocks in use stay low and together.
  struct Shorter {
    bool operator()(const Extent& a, const Extent& b) const {
      return a.pages != b.pages ? a.pages < b.pages : &a < &b;
    }
  };
  using FreeExtents = boost::intrusive::set<Extent, boost::intrusive::compare<Shorter>,
                                            boost::intrusive::constant_time_size<false>>;

  static constexpr std::uint32_t pages_of(std::size_t bytes) {
    return static_cast<std::uint32_t>((bytes + page_bytes - 1) / page_bytes);
  }
  Extent* block_at(const void* p) const {
    const auto offset = reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(start_);
    if (offset % page_bytes != 0 || offset / page_bytes >= pages_) return nullptr;
    Extent& e = extents_[offset / page_bytes];
    return e.state == Extent::State::block ? &e : nullptr;
  }
  std::uint32_t index_of(const Extent& e) const { return static_cast<std::uint32_t>(&e - extents_); }
  Extent& lay(std::uint32_t first, std::uint32_t pages, Extent::State state) {
    Extent& e = extents_[first];
    e.pages = pages;
    e.state = state;
    e.first = first;
    extents_[first + pages - 1].first = first;
    return e;
  }
  void give(std::uint32_t first, std::uint32_t pages) {
    free_.insert(lay(first, pages, Extent::State::free));
  }
  void take(Extent& e) {
    free_.erase(FreeExtents::s_iterator_to(e));
    e.state = Extent::State::inside;
  }

  std::uint8_t* start_;
  std::uint32_t pages_;
  Extent* extents_;
  FreeExtents free_;
};

}  // namespace ec::pinned
