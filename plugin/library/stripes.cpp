// The checks of the chunks of a call, which name a wrong chunk.
#include "plugin/library/stripes.hpp"

#include "plugin/library/refusal.hpp"

namespace ec::library {
namespace {

using kernels::Residence;

/// Takes the chunks over.
template <class From, class To>
const To* convert(const Names& names, std::string_view name, std::size_t bytes, std::span<const From> from,
                  Chunks<To>& to) {
  bool as_long = true;
  To* place = to.data();
  for (const From& chunk : from) {
    as_long &= chunk.bytes.size() == bytes;
    auto* const begin = reinterpret_cast<decltype(To::data)>(chunk.bytes.data());
    *place++ = {begin, static_cast<Residence>(chunk.residence)};
  }
  for (std::size_t i = 0; !as_long && i < from.size(); ++i)
    if (from[i].bytes.size() != bytes)
      refuse("{}[{}] has {} bytes and {}[0] has {}; all chunks of a call must be equally long", name, i,
             from[i].bytes.size(), names.first, bytes);
  return to.data();
}

/// Names the first chunk that is wrong, if one is. Returns their residences, ORed.
template <class Chunk>
unsigned check_each(std::string_view name, std::span<const Chunk> chunks, std::size_t bytes,
                    bool for_stream) {
  unsigned residences = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const auto& [data, where] = chunks[i];
    const auto residence = static_cast<unsigned>(where);
    if (residence > static_cast<unsigned>(Residence::device))
      refuse("{}[{}] has residence {}; allowed are 0 (pageable), 1 (pinned), 2 (device)", name, i,
             static_cast<int>(where));
    if (for_stream && where == Residence::pageable)
      refuse("{}[{}] is pageable; work on a stream takes pinned and device memory", name, i);
    if (data == nullptr && bytes != 0)
      refuse("{}[{}] is null and should hold a chunk of {} bytes", name, i, bytes);
    residences |= residence;
  }
  return residences;
}

/// For chunks of PTRDIFF_MAX bytes at most.
bool overlap(const std::uint8_t* a, const std::uint8_t* b, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(a) - reinterpret_cast<std::uintptr_t>(b) + (bytes - 1) <
         2 * bytes - 1;
}

}  // namespace

Stripes::Stripes(const Names& names, const StripeShape& f, const kernels::Source* source,
                 const kernels::Target* target, bool for_stream)
    : form(f), sources(source, f.stripes * f.sources), targets(target, f.stripes * f.targets) {
  const auto [count, bytes, from, to] = f;
  if (bytes > max_chunk_bytes && count != 0)
    refuse("chunks of {} bytes; they must have at most {}", bytes, max_chunk_bytes);
  const unsigned residences =
      check_each(names.from, sources, bytes, for_stream) | check_each(names.to, targets, bytes, for_stream);
  on_device = (residences & static_cast<unsigned>(Residence::device)) != 0;
  if (bytes == 0) return;
  const auto refuse_overlap = [&](std::size_t t, std::string_view name, std::size_t other) {
    refuse("{}[{}] overlaps {}[{}]; a target must overlap no other chunk of its stripe", names.to, t, name,
           other);
  };
  for (std::size_t stripe = 0; stripe < count; ++stripe) {
    if (look(sources.subspan(stripe * from, from), targets.subspan(stripe * to, to), bytes).apart) continue;
    for (std::size_t t = stripe * to; t < (stripe + 1) * to; ++t) {
      for (std::size_t s = stripe * from; s < (stripe + 1) * from; ++s)
        if (overlap(targets[t].data, sources[s].data, bytes)) refuse_overlap(t, names.from, s);
      for (std::size_t other = t + 1; other < (stripe + 1) * to; ++other)
        if (overlap(targets[t].data, targets[other].data, bytes)) refuse_overlap(t, names.to, other);
    }
  }
}

Converted::Converted(const Names& names, const StripeShape& form, std::span<const Source> from,
                     std::span<const Target> to, bool for_stream)
    : sources_(from.size(), boost::container::default_init),
      targets_(to.size(), boost::container::default_init),
      stripes_{names, form, convert(names, names.from, form.bytes, from, sources_),
               convert(names, names.to, form.bytes, to, targets_), for_stream} {}

}  // namespace ec::library
