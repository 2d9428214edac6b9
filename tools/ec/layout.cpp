#include "tools/ec/layout.hpp"

#include <tuple>

namespace ec::file {

Layout::Layout(const std::vector<FileEntry>& files, std::uint32_t block_bytes) : block_bytes_(block_bytes) {
  std::uint64_t open = 0;              // the block that takes small files
  std::uint32_t filled = block_bytes;  // of it
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto file = static_cast<std::uint32_t>(i);
    const std::uint64_t bytes = files[i].bytes;
    first_block_.push_back(blocks_);
    if (bytes >= block_bytes) {
      pieces_.push_back({blocks_, bytes, 0, file});
      blocks_ += blocks_of(bytes);
    } else if (bytes > 0) {
      if (bytes > block_bytes - filled) {
        open = blocks_++;
        filled = 0;
      }
      first_block_.back() = open;
      pieces_.push_back({open, bytes, filled, file});
      filled += static_cast<std::uint32_t>(bytes);
    }
  }
  std::ranges::sort(pieces_, {}, [](const Piece& piece) { return std::tuple(piece.block, piece.offset); });
}

}  // namespace ec::file
