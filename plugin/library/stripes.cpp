// The checks of the chunks of a call.
#include "plugin/library/stripes.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "plugin/library/refusal.hpp"

namespace ec::library {
namespace {

/// Every target of a stripe with every other chunk: few, and no memory is needed.
void check_overlaps(const Argument<Source>& from, const Argument<Target>& to, const Stripes& stripes,
                    std::size_t stripe) {
  const std::size_t first_source = stripe * from.each, first_target = stripe * to.each;
  const auto check = [&](std::size_t t, const std::uint8_t* other, std::string_view name, std::size_t i) {
    const auto a = reinterpret_cast<std::uintptr_t>(stripes.targets[t].data);
    const auto b = reinterpret_cast<std::uintptr_t>(other);
    if (std::max(a, b) - std::min(a, b) < stripes.bytes)
      refuse("{}[{}] overlaps {}[{}]; a target must overlap no other chunk of its stripe", to.name, t, name,
             i);
  };
  for (std::size_t t = first_target; t < first_target + to.each; ++t) {
    for (std::size_t s = first_source; s < first_source + from.each; ++s)
      check(t, stripes.sources[s].data, from.name, s);
    for (std::size_t other = t + 1; other < first_target + to.each; ++other)
      check(t, stripes.targets[other].data, to.name, other);
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
