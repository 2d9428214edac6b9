// The file in which a mismatch is kept, and `ectool replay` finds it again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gf/matrix.hpp"
#include "plugin/codec/checking/block_check.hpp"

namespace ec::codec {

/// A block of a call that a back end got wrong, with what it takes to run it again. The file is the head and
/// the bytes behind it as they lie in memory; little-endian, as all machines are that we run on.
struct Reproducer {
  struct Head {
    std::array<char, 8> magic{'e', 'c', '_', 'd', 'u', 'm', 'p', '1'};
    std::uint32_t verb = 0;  ///< a kernels::Verb
    std::uint32_t sources = 0;
    std::uint32_t targets = 0;
    std::uint32_t block_bytes = 0;
    std::uint64_t block_offset = 0;
    std::uint64_t chunk_bytes = 0;
    std::uint64_t stripes = 0;       ///< in the call
    std::array<char, 16> backend{};  ///< that was found wrong
    std::array<char, 16> judge{};    ///< whose bytes are the expected ones
    bool operator==(const Head&) const = default;
  };
  /// Where a whole chunk was.
  struct Place {
    std::uint16_t residence;     ///< a kernels::Residence
    std::uint16_t misalignment;  ///< its begin above a multiple of 4096
  };
  /// Blocks of these, in this order. before: of the targets of an accumulate; there are none for a transform.
  enum Part : unsigned char { source, before, got, expected };

  kernels::Verb verb() const { return static_cast<kernels::Verb>(head.verb); }
  Place place(std::size_t chunk) const;  ///< of sources, then targets
  gf::Matrix matrix() const;
  std::span<const std::uint8_t> block(Part part, std::size_t i) const;

  Head head;
  std::string behind;  ///< places, the matrix row by row, and blocks

  bool operator==(const Reproducer&) const = default;
};

/// got, expected: one target after the other; got null: what the views show. before: not null for an
/// accumulate.
Reproducer make_reproducer(std::string_view backend, std::string_view judge, std::size_t stripes,
                           const BlockViews& views, const SavedTargets* before, const std::uint8_t* got,
                           const std::uint8_t* expected);

/// Longer than any that is written: a matrix of 255 x 255, 255 sources of 4 KiB and three times the targets
/// of a block.
inline constexpr std::size_t largest_reproducer = std::size_t{2} << 20;

/// The file's content.
std::string to_file(const Reproducer& reproducer);

/// Nothing if `file` is no such content, with the reason in *why. Any bytes are safe to give: what is
/// returned is consistent, its block is within the bounds of block_check.hpp, and its names are printable.
std::optional<Reproducer> parse_reproducer(std::string_view file, std::string* why);

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
