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

using kernels::Residence;

template <class Chunk>
void check_chunks(std::string_view name, std::span<const Chunk> chunks, std::size_t bytes) {
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i].residence > Residence::device)
      refuse_residence(name, i, static_cast<int>(chunks[i].residence));
    if (chunks[i].data == nullptr && bytes != 0)
      refuse("{}[{}] is null and should hold a chunk of {} bytes", name, i, bytes);
  }
}

template <class Chunk>
void check_not_pageable(std::string_view name, std::span<const Chunk> chunks) {
  for (std::size_t i = 0; i < chunks.size(); ++i)
    if (chunks[i].residence == Residence::pageable)
      refuse("{}[{}] is pageable; work on a stream takes pinned and device memory", name, i);
}

/// Where a chunk of a stripe begins. Sources come first in the numbering, then targets.
struct Place {
  const std::uint8_t* begin;
  std::size_t number;
};

/// Sorted by where they begin, equally long chunks overlap only if neighbours do; and if a target overlaps
/// anything, it overlaps one of its neighbours.
void check_overlaps(const Stripes& stripes, std::size_t stripe) {
  boost::container::static_vector<Place, gf::max_chunks> places;
  for (const auto& source : stripes.sources_of(stripe)) places.push_back({source.data, places.size()});
  for (const auto& target : stripes.targets_of(stripe)) places.push_back({target.data, places.size()});
  std::ranges::sort(places, std::less<>{}, &Place::begin);
  const auto is_target = [&](const Place& place) { return place.number >= stripes.sources_each; };
  const auto name = [&](const Place& place) {
    return is_target(place)
               ? fmt::format("{}[{}]", stripes.target_name,
                             stripe * stripes.targets_each + place.number - stripes.sources_each)
               : fmt::format("{}[{}]", stripes.source_name, stripe * stripes.sources_each + place.number);
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

void check(const Stripes& stripes) {
  if (stripes.sources.size() % stripes.sources_each != 0)
    refuse("{} has {} chunks; whole stripes have {} each", stripes.source_name, stripes.sources.size(),
           stripes.sources_each);
  const std::size_t wanted = stripes.count() * stripes.targets_each;
  if (stripes.targets.size() != wanted)
    refuse("{} has {} chunks; {} stripe{} with {} each need {}", stripes.target_name, stripes.targets.size(),
           stripes.count(), stripes.count() == 1 ? "" : "s", stripes.targets_each, wanted);
  if (constexpr auto most = std::numeric_limits<std::ptrdiff_t>::max();
      stripes.bytes > static_cast<std::size_t>(most))
    refuse("chunks of {} bytes; they must have at most {}", stripes.bytes, most);
  check_chunks(stripes.source_name, stripes.sources, stripes.bytes);
  check_chunks(stripes.target_name, stripes.targets, stripes.bytes);
  if (stripes.bytes == 0) return;
  for (std::size_t stripe = 0; stripe < stripes.count(); ++stripe) check_overlaps(stripes, stripe);
}

void check_none_is_pageable(const Stripes& stripes) {
  check_not_pageable(stripes.source_name, stripes.sources);
  check_not_pageable(stripes.target_name, stripes.targets);
}

void refuse_residence(std::string_view name, std::size_t i, int residence) {
  refuse("{}[{}] has residence {}; allowed are 0 (pageable), 1 (pinned), 2 (device)", name, i, residence);
}

bool any_on_device(const Stripes& stripes) noexcept {
  const auto on_device = [](const auto& chunk) { return chunk.residence == Residence::device; };
  return std::ranges::any_of(stripes.sources, on_device) || std::ranges::any_of(stripes.targets, on_device);
}

}  // namespace ec::library
