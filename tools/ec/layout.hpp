// Where the bytes of files lie on the blocks of a set of version 2: by their lengths alone (docs/format.md).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/ec/format.hpp"

namespace ec::file {

/// Immutable.
class Layout {
 public:
  Layout(const std::vector<FileEntry>& files, std::uint32_t block_bytes);

  std::uint64_t blocks() const { return blocks_; }
  bool has_own_blocks(const FileEntry& file) const { return file.bytes >= block_bytes_; }
  std::uint64_t blocks_of(std::uint64_t bytes) const { return (bytes + block_bytes_ - 1) / block_bytes_; }
  /// Of a file that is not empty.
  std::uint64_t first_block(std::size_t file) const { return first_block_[file]; }

  /// What there is of files in `count` blocks from `first` on: calls use(file, offset in it, bytes, their
  /// offset behind the beginning of the first block), in the order of the bytes.
  template <class Use>
  void for_each_part(std::uint64_t first, std::uint64_t count, Use use) const {
    const std::uint64_t end = first + count;
    auto piece = std::ranges::upper_bound(pieces_, first, {}, &Piece::block);
    // Several small ones may begin in one block.
    const std::uint64_t block = piece == pieces_.begin() ? 0 : std::prev(piece)->block;
    while (piece != pieces_.begin() && std::prev(piece)->block == block) --piece;
    for (; piece != pieces_.end() && piece->block < end; ++piece) {
      if (piece->bytes < block_bytes_) {
        if (piece->block >= first)
          use(piece->file, std::uint64_t{0}, piece->bytes,
              (piece->block - first) * block_bytes_ + piece->offset);
        continue;
      }
      const std::uint64_t from = std::max(first, piece->block);
      const std::uint64_t to = std::min(end, piece->block + blocks_of(piece->bytes));
      if (from >= to) continue;
      const std::uint64_t offset = (from - piece->block) * block_bytes_;
      use(piece->file, offset, std::min((to - from) * block_bytes_, piece->bytes - offset),
          (from - first) * block_bytes_);
    }
  }

 private:
  struct Piece {
    std::uint64_t block;  ///< where it begins
    std::uint64_t bytes;
    std::uint32_t offset;  ///< in that block
    std::uint32_t file;
  };

  std::uint32_t block_bytes_;
  std::uint64_t blocks_ = 0;
  std::vector<Piece> pieces_;  ///< in the order of their bytes
  std::vector<std::uint64_t> first_block_;
};

inline std::uint64_t columns_of(const Layout& layout, unsigned k) {
  return std::max<std::uint64_t>(1, (layout.blocks() + k - 1) / k);
}

}  // namespace ec::file
