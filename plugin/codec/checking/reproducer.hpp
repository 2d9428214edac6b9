// The file in which a mismatch is kept, for `ectool replay`.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "plugin/codec/checking/block_check.hpp"

namespace ec::codec {

/// A reproducer is a line of this and of NAME=VALUE with a blank between: backend, verb, sources, targets,
/// chunk (its bytes), block (its bytes) and offset (of the block in its chunk). Without a gap follow: a byte
/// for each source and target, the address of the chunk modulo 256; the matrix, row by row; the blocks of the
/// sources; for an accumulate, those of the targets before it; and those that the back end made.
inline constexpr std::string_view reproducer_begin = "ec_cuda mismatch 2: ";
/// In the order of kernels::Verb.
inline constexpr std::array<std::string_view, 2> verb_names{"transform", "accumulate"};

/// Files that a directory may hold before no more are written.
inline constexpr unsigned most_reproducers = 16;

/// Writes a new file into `directory`, mode 0600, and returns its path; or an empty one, with the reason in
/// *why. It holds bytes of objects. The directory is made, with mode 0700, where only itself is missing. It
/// is refused if it is a symbolic link, belongs to another user than root or this one, or if others may write
/// to it. Nothing that is there is overwritten. got: one target after the other; null: what the views show.
/// before: not null for an accumulate.
std::string write_reproducer(const std::string& directory, std::string_view backend, const BlockViews& views,
                             const SavedTargets* before, const std::uint8_t* got, std::string* why);

}  // namespace ec::codec
