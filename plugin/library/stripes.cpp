// The checks of the chunks of a call.
#include "plugin/library/stripes.hpp"

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <functional>
#include <limits>

#include "gf/generator.hpp"
#include "plugin/library/refusal.hpp"

namespace ec::library {
namespace {

/// Where a chunk of a stripe begins. Sources come first in the numbering, then targets.
struct Place {
  const std::uint8_t* begin;
  std::size_t number;
};

/// Sorted by where they begin, equally long chunks overlap only if neighbours do; and if a target overlaps
/// anything, it overlaps one of its neighbours.
void check_overlaps(const Argument<Source>& from, const Argument<Target>& to, const Stripes& stripes,
                    std::size_t stripe) {
  boost::container::static_vector<Place, gf::max_chunks> places;
  for (std::size_t i = 0; i < from.each; ++i)
    places.push_back({stripes.sources[stripe * from.each + i].data, places.size()});
  for (std::size_t i = 0; i < to.each; ++i)
    places.push_back({stripes.targets[stripe * to.each + i].data, places.size()});
  std::ranges::sort(places, std::less<>{}, &Place::begin);
  const auto is_target = [&](const Place& place) { return place.number >= from.each; };
  const auto name = [&](const Place& place) {
    return is_target(place) ? fmt::format("{}[{}]", to.name, stripe * to.each + place.number - from.each)
                            : fmt::format("{}[{}]", from.name, stripe * from.each + place.number);
  };
  for (std::size_t i = 1; i < places.size(); ++i) {
    const Place& low = places[i - 1];
    const Place& high = places[i];
    if (!is_target(low) && !is_target(high)) continue;
    if (static_cast<std::size_t>(high.begin - low.begin) >= stripes.bytes) continue;
    const bool low_first = is_target(low) && (!is_target(high) || low.number < high.number);
    refuse("{} overlaps {}; a target must overlap no other chunk of its stripe", name(low_first ? low : high),
           name(low_first ? high : low));
  }
}

}  // namespace

Stripes::Stripes(const Argument<Source>& from, const Argument<Target>& to, bool for_stream)
    : count(from.chunks.size() / from.each), bytes(count == 0 ? 0 : from.chunks[0].bytes.size()) {
  if (from.chunks.size() % from.each != 0)
    refuse("{} has {} chunks; whole stripes have {} each", from.name, from.chunks.size(), from.each);
  if (const std::size_t wanted = count * to.each; to.chunks.size() != wanted)
    refuse("{} has {} chunks; {} stripe{} with {} each need {}", to.name, to.chunks.size(), count,
           count == 1 ? "" : "s", to.each, wanted);
  if (constexpr auto most = std::numeric_limits<std::ptrdiff_t>::max();
      bytes > static_cast<std::size_t>(most))
    refuse("chunks of {} bytes; they must have at most {}", bytes, most);
  const auto take = [&]<class Chunk>(const auto& argument, Chunks<Chunk>& chunks) {
    chunks.reserve(argument.chunks.size());
    for (std::size_t i = 0; i < argument.chunks.size(); ++i) {
      const auto& chunk = argument.chunks[i];
      if (chunk.bytes.size() != bytes)
        refuse("{}[{}] has {} bytes and {}[0] has {}; all chunks of a call must be equally long",
               argument.name, i, chunk.bytes.size(), from.name, bytes);
      if (chunk.residence > Residence::device)
        refuse_residence(argument.name, i, static_cast<int>(chunk.residence));
      if (for_stream && chunk.residence == Residence::pageable)
        refuse("{}[{}] is pageable; work on a stream takes pinned and device memory", argument.name, i);
      if (chunk.bytes.data() == nullptr && bytes != 0)
        refuse("{}[{}] is null and should hold a chunk of {} bytes", argument.name, i, bytes);
      on_device = on_device || chunk.residence == Residence::device;
      chunks.push_back({reinterpret_cast<decltype(Chunk::data)>(chunk.bytes.data()),
                        static_cast<kernels::Residence>(chunk.residence)});
    }
  };
  take(from, sources);
  take(to, targets);
  if (bytes == 0) return;
  for (std::size_t stripe = 0; stripe < count; ++stripe) check_overlaps(from, to, *this, stripe);
}

}  // namespace ec::library
