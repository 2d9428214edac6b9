// The file in which a mismatch is kept, and `ectool replay` finds it again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gf/matrix.hpp"
#include "plugin/codec/checking/block_check.hpp"

namespace ec::codec {

/// A block of a call that a back end got wrong, with what it takes to run it again.
struct Reproducer {
  /// A chunk of the block: its bytes, and where the whole chunk began above a multiple of 4096.
  struct Piece {
    kernels::Residence residence = kernels::Residence::pageable;
    unsigned misalignment = 0;
    std::vector<std::uint8_t> bytes;

    bool operator==(const Piece&) const = default;
  };
  /// `bytes` of its piece are what the back end gave.
  struct Result {
    Piece got;
    std::vector<std::uint8_t> expected;
    std::vector<std::uint8_t> before;  ///< of an accumulate; else empty

    bool operator==(const Result&) const = default;
  };

  std::string backend;  ///< that was found wrong
  std::string judge;    ///< whose bytes are the expected ones
  std::string date;     ///< for people
  std::string cpu;      ///< the same
  bool accumulate = false;
  gf::Matrix matrix;
  std::uint64_t chunk_bytes = 0;
  std::uint64_t stripes = 1;  ///< in the call
  Block block;
  std::vector<Piece> sources;
  std::vector<Result> targets;

  bool operator==(const Reproducer&) const = default;
};

/// got, expected: one target after the other; got null: what the views show.
Reproducer make_reproducer(std::string_view backend, std::string_view judge, bool accumulate,
                           std::size_t stripes, const BlockViews& views, const SavedTargets* before,
                           const std::uint8_t* got, const std::uint8_t* expected);

/// Longer than any that is written: 255 sources of 4 KiB and three times the targets of a block, in
/// hexadecimal.
inline constexpr std::size_t largest_reproducer = std::size_t{4} << 20;

/// The file's text; ends in a newline.
std::string to_json(const Reproducer& reproducer);

/// Nothing if `text` is not such a file, with the reason in *why. Any text is safe to give: a reproducer that
/// is returned is consistent and its block is within the bounds of block_check.hpp.
std::optional<Reproducer> parse_reproducer(std::string_view text, std::string* why);

/// Files that a directory may hold before no more are written.
inline constexpr unsigned most_reproducers = 16;

/// Writes a new file into `directory`, mode 0600, and returns its path; or an empty one, with the reason in
/// *why. It holds bytes of objects. The directory is made, with mode 0700, where only itself is missing. It
/// is refused if it is a symbolic link, belongs to another user than root or this one, or if others may write
/// to it. Nothing that is there is overwritten.
std::string write_reproducer(const std::string& directory, const Reproducer& reproducer, std::string* why);

/// Reads the file at `path`: parse_reproducer of a regular file of at most largest_reproducer bytes.
std::optional<Reproducer> read_reproducer(const std::string& path, std::string* why);

}  // namespace ec::codec
