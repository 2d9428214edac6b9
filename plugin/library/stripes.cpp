// The checks of the chunks of a call. Small calls notice them: the loops do not branch, and the wrong chunk
// is found only after a loop has found that there is one.
#include "plugin/library/stripes.hpp"

#include <algorithm>
#include <limits>

#include "plugin/library/refusal.hpp"

namespace ec::library {
namespace {

/// A chunk of the caller, in the form of either interface.
struct PassedChunk {
  const void* data;
  std::size_t bytes;
  unsigned residence;
};

template <class Chunk>
PassedChunk passed(const Chunk& chunk, std::size_t bytes) {
  if constexpr (requires { chunk.bytes; })
    return {chunk.bytes.data(), chunk.bytes.size(), static_cast<unsigned>(chunk.residence)};
  else
    return {chunk.data, bytes, static_cast<unsigned>(chunk.residence)};
}

struct Requirements {
  std::size_t bytes;
  bool for_stream;
};

/// Names the first chunk that is wrong, if one is.
template <class Chunk>
[[gnu::noinline]] void refuse_a_wrong_one(std::string_view name, std::span<const Chunk> chunks,
                                          const Requirements& wanted, std::string_view first) {
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const PassedChunk chunk = passed(chunks[i], wanted.bytes);
    if (chunk.bytes != wanted.bytes)
      refuse("{}[{}] has {} bytes and {}[0] has {}; all chunks of a call must be equally long", name, i,
             chunk.bytes, first, wanted.bytes);
    if (chunk.residence > EC_DEVICE)
      refuse("{}[{}] has residence {}; allowed are 0 (pageable), 1 (pinned), 2 (device)", name, i,
             static_cast<int>(chunk.residence));
    if (wanted.for_stream && chunk.residence == EC_PAGEABLE)
      refuse("{}[{}] is pageable; work on a stream takes pinned and device memory", name, i);
    if (chunk.data == nullptr && wanted.bytes != 0)
      refuse("{}[{}] is null and should hold a chunk of {} bytes", name, i, wanted.bytes);
  }
}

/// Facts about all chunks of an array.
struct ArrayFacts {
  bool as_long = true;                                                              ///< all as long as wanted
  unsigned residences = 0;                                                          ///< ORed
  std::uintptr_t lowest = std::numeric_limits<std::uintptr_t>::max(), highest = 0;  ///< where chunks begin

  /// If false, each chunk is looked at.
  bool right_for_sure(const Requirements& wanted) const {
    return as_long && residences < EC_DEVICE && lowest != 0 && !wanted.for_stream;
  }
};

/// Copies the chunks into the form of the kernels.
template <class Chunk, class To>
ArrayFacts take(std::span<const Chunk> chunks, const Requirements& wanted, To* to) {
  using Bytes = decltype(To::data);
  ArrayFacts seen;
  for (const Chunk& each : chunks) {
    const PassedChunk chunk = passed(each, wanted.bytes);
    const auto place = reinterpret_cast<std::uintptr_t>(chunk.data);
    seen.as_long &= chunk.bytes == wanted.bytes;
    seen.residences |= chunk.residence;
    seen.lowest = std::min(seen.lowest, place);
    seen.highest = std::max(seen.highest, place);
    *to++ = {static_cast<Bytes>(const_cast<void*>(chunk.data)),
             static_cast<kernels::Residence>(chunk.residence)};
  }
  return seen;
}

/// For chunks of PTRDIFF_MAX bytes at most. Compares the addresses of other chunks with one chunk's.
class Neighbours {
 public:
  Neighbours(const std::uint8_t* place, std::size_t bytes)
      : place_(reinterpret_cast<std::uintptr_t>(place) + (bytes - 1)) {}
  void add(const std::uint8_t* other) {
    nearest_ = std::min(nearest_, place_ - reinterpret_cast<std::uintptr_t>(other));
  }
  bool overlap(std::size_t bytes) const { return nearest_ < 2 * bytes - 1; }

 private:
  std::uintptr_t place_;
  std::uintptr_t nearest_ = std::numeric_limits<std::uintptr_t>::max();
};

/// Whether a target of a stripe overlaps another chunk of the stripe: there are few, and no memory is needed.
/// apart: no target overlaps a source.
[[gnu::always_inline]] inline bool some_overlap(std::span<const kernels::Source> sources,
                                                std::span<const kernels::Target> targets, std::size_t bytes,
                                                bool apart) {
  bool found = false;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    Neighbours others(targets[t].data, bytes);
    if (!apart)
      for (const auto& source : sources) others.add(source.data);
    for (const auto& later : targets.subspan(t + 1)) others.add(later.data);
    found |= others.overlap(bytes);
  }
  return found;
}

/// Names the first target of a stripe that overlaps another chunk of the stripe.
[[gnu::cold, gnu::noinline]] void refuse_overlap(const Names& names, const Stripes& stripes,
                                                 std::size_t stripe) {
  const auto& shape = stripes.shape;
  const auto check = [&](std::size_t t, std::string_view name, std::size_t i, const std::uint8_t* other) {
    Neighbours of_target(stripes.targets.data()[t].data, shape.bytes);
    of_target.add(other);
    if (of_target.overlap(shape.bytes))
      refuse("{}[{}] overlaps {}[{}]; a target must overlap no other chunk of its stripe", names.to, t, name,
             i);
  };
  for (std::size_t t = stripe * shape.targets; t < (stripe + 1) * shape.targets; ++t) {
    for (std::size_t s = stripe * shape.sources; s < (stripe + 1) * shape.sources; ++s)
      check(t, names.from, s, stripes.sources.data()[s].data);
    for (std::size_t other = t + 1; other < (stripe + 1) * shape.targets; ++other)
      check(t, names.to, other, stripes.targets.data()[other].data);
  }
}

}  // namespace

template <class From, class To>
Stripes::Stripes(const Names& names, const StripeShape& f, const From* from, const To* to, bool for_stream)
    : shape(f), sources(shape.stripes * shape.sources), targets(shape.stripes * shape.targets) {
  if (constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
      shape.bytes > most && shape.stripes != 0)
    refuse("chunks of {} bytes; they must have at most {}", shape.bytes, most);
  const Requirements wanted{shape.bytes, for_stream};
  const std::span<const From> all_from(from, shape.stripes * shape.sources);
  const std::span<const To> all_to(to, shape.stripes * shape.targets);
  const ArrayFacts read = take(all_from, wanted, sources.data());
  if (!read.right_for_sure(wanted)) refuse_a_wrong_one(names.from, all_from, wanted, names.first);
  const ArrayFacts written = take(all_to, wanted, targets.data());
  if (!written.right_for_sure(wanted)) refuse_a_wrong_one(names.to, all_to, wanted, names.first);
  on_device = ((read.residences | written.residences) & EC_DEVICE) != 0;
  if (shape.bytes == 0) return;
  // True where the caller made both arrays, each in one piece.
  const bool apart = (written.lowest > read.highest && written.lowest - read.highest >= shape.bytes) ||
                     (read.lowest > written.highest && read.lowest - written.highest >= shape.bytes);
  const kernels::Source* of_stripe = sources.data();
  const kernels::Target* made = targets.data();
  for (std::size_t stripe = 0; stripe < shape.stripes; ++stripe) {
    if (some_overlap({of_stripe, shape.sources}, {made, shape.targets}, shape.bytes, apart))
      refuse_overlap(names, *this, stripe);
    of_stripe += shape.sources;
    made += shape.targets;
  }
}

template Stripes::Stripes(const Names&, const StripeShape&, const Source*, const Target*, bool);
template Stripes::Stripes(const Names&, const StripeShape&, const ec_source*, const ec_target*, bool);

}  // namespace ec::library
