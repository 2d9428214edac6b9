// The chunks of a call in the form that the rooms below take, checked before the first byte is written.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "ec/codec.hpp"
#include "kernels/residence.hpp"

namespace ec::library {

/// The parameters that hold the chunks of a call.
struct Names {
  std::string_view from, to;
  std::string_view first = from;  ///< the parameter whose first chunk sets the length of all
};
inline constexpr Names encode_names{"data", "coding"};
inline constexpr Names decode_names{"sources", "targets"};
inline constexpr Names update_names{"delta", "coding"};
inline constexpr Names verify_names{"sources", ""};
inline constexpr Names add_names{"chunks", "targets", "targets"};

/// Chunks of one call; on the stack for a stripe of common size.
template <class Chunk>
using Chunks = boost::container::small_vector<Chunk, 32>;

struct StripeShape {
  std::size_t stripes;
  std::size_t bytes;             ///< of every chunk
  std::size_t sources, targets;  ///< of a stripe
};

inline constexpr std::size_t max_chunk_bytes = std::numeric_limits<std::ptrdiff_t>::max();

/// Facts about a stripe's chunks that a quick look finds. Small calls notice the look.
struct ChunkFacts {
  unsigned residences = 0;  ///< ORed
  /// Whether no chunk is null, and the targets are in ascending order and all behind the sources or before
  /// them, as where somebody made both arrays each in one piece.
  bool apart = false;
};
[[gnu::always_inline]] inline ChunkFacts look(std::span<const kernels::Source> sources,
                                              std::span<const kernels::Target> targets, std::size_t bytes) {
  ChunkFacts seen;
  constexpr std::uintptr_t last = std::numeric_limits<std::uintptr_t>::max();
  std::uintptr_t lowest = last, highest = 0;
  for (const auto& source : sources) {
    const auto place = reinterpret_cast<std::uintptr_t>(source.data);
    seen.residences |= static_cast<unsigned>(source.residence);
    lowest = std::min(lowest, place);
    highest = std::max(highest, place);
  }
  seen.apart = lowest != 0;
  std::uintptr_t begin = last, end = 1;  // null is no place for the first
  for (const auto& target : targets) {
    const auto place = reinterpret_cast<std::uintptr_t>(target.data);
    seen.residences |= static_cast<unsigned>(target.residence);
    seen.apart &= place >= end;
    begin = std::min(begin, place);
    end = place + bytes;
  }
  seen.apart &= begin > highest ? begin - highest >= bytes : lowest >= end;
  return seen;
}

/// A view of arrays of chunks, stripe after stripe.
struct Stripes {
  /// Throws Refusal unless the chunks are of PTRDIFF_MAX bytes at most and of a residence that there is, and,
  /// where there are bytes, no chunk is null and no target overlaps another chunk of its stripe. for_stream:
  /// no chunk may be pageable, which work on a stream cannot reach.
  Stripes(const Names& names, const StripeShape& form, const kernels::Source* from, const kernels::Target* to,
          bool for_stream);

  StripeShape form;
  std::span<const kernels::Source> sources;
  std::span<const kernels::Target> targets;
  bool on_device = false;  ///< whether some chunk lies in device memory
};

/// Chunks of the C++ interface, which are laid out in another way.
class Converted {
 public:
  /// Throws as Stripes does, and Refusal unless all chunks are of the form's bytes; std::bad_alloc.
  Converted(const Names& names, const StripeShape& form, std::span<const Source> from,
            std::span<const Target> to, bool for_stream);
  Converted(const Converted&) = delete;
  operator const Stripes&() const { return stripes_; }  // NOLINT: these stripes

 private:
  Chunks<kernels::Source> sources_;
  Chunks<kernels::Target> targets_;
  Stripes stripes_;
};

}  // namespace ec::library
