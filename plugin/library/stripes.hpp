// The chunks of a call in the form that the rooms below take, checked before the first byte is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "ec/codec.hpp"
#include "ec/ec.h"
#include "kernels/region.hpp"

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

/// Chunks of one call, without values at first; on the stack for a stripe of common size.
template <class Chunk>
class Chunks {
 public:
  /// Throws std::bad_alloc.
  explicit Chunks(std::size_t count)
      : count_(count), many_(count > few ? std::make_unique_for_overwrite<Chunk[]>(count) : nullptr) {}
  Chunks(const Chunks&) = delete;
  Chunks& operator=(const Chunks&) = delete;
  ~Chunks() {}

  Chunk* data() { return many_ ? many_.get() : few_; }
  const Chunk* data() const { return many_ ? many_.get() : few_; }
  std::span<const Chunk> view() const { return {data(), count_}; }

 private:
  static constexpr std::size_t few = 32;
  std::size_t count_;
  std::unique_ptr<Chunk[]> many_;
  // In a union the chunks get no values.
  union {
    Chunk few_[few];
  };
};

struct StripeShape {
  std::size_t stripes;
  std::size_t bytes;             ///< of every chunk
  std::size_t sources, targets;  ///< of a stripe
};

struct Stripes {
  /// from, to: arrays of an interface's chunks, stripe after stripe. Throws Refusal unless all chunks are of
  /// the shape's bytes, PTRDIFF_MAX at most, and of a known residence, and, where there are bytes, no
  /// chunk is null and no target overlaps another chunk of its stripe. for_stream: no chunk may be pageable,
  /// because work on a stream cannot reach it. Instances for both interfaces are in stripes.cpp.
  template <class From, class To>
  Stripes(const Names& names, const StripeShape& shape, const From* from, const To* to, bool for_stream);

  StripeShape shape;
  Chunks<kernels::Source> sources;
  Chunks<kernels::Target> targets;
  bool on_device;  ///< whether some chunk lies in device memory
};

extern template Stripes::Stripes(const Names&, const StripeShape&, const Source*, const Target*, bool);
extern template Stripes::Stripes(const Names&, const StripeShape&, const ec_source*, const ec_target*, bool);

}  // namespace ec::library
