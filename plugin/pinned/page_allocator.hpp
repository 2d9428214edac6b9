// Blocks out of one range of pages: best fit, neighbours joined again, and all bookkeeping outside the range,
// so that a program that writes past its block cannot break it.
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
  PageAllocator(void* start, std::size_t bytes, void* books);
  PageAllocator(const PageAllocator&) = delete;
  PageAllocator& operator=(const PageAllocator&) = delete;

  /// A block of at least `bytes`, aligned to `alignment` (a power of two) or to a page if that is more. Null
  /// if no free extent is long enough, and for 0 bytes.
  void* allocate(std::size_t alignment, std::size_t bytes);
  /// Bytes of the block that starts at p; 0 if no block does.
  std::size_t size_of(const void* p) const;
  /// Frees the block that starts at p; returns its bytes, or 0 if no block does.
  std::size_t release(void* p);

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

  Extent* block_at(const void* p) const;
  std::uint32_t index_of(const Extent& e) const { return static_cast<std::uint32_t>(&e - extents_); }
  Extent& lay(std::uint32_t first, std::uint32_t pages, Extent::State state);
  void give(std::uint32_t first, std::uint32_t pages);
  void take(Extent& e);

  std::uint8_t* start_;
  std::uint32_t pages_;
  Extent* extents_;
  FreeExtents free_;
};

}  // namespace ec::pinned
