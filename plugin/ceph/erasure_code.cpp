// Calls of the host: which chunks of which shards, in what order, and into whose buffers.
#include "plugin/ceph/erasure_code.hpp"

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <new>
#include <ostream>

#include "plugin/ceph/chunk_buffers.hpp"
#include "plugin/ceph/host.hpp"
#include "plugin/ceph/read_set.hpp"
#include "plugin/codec/settings/setup_error.hpp"

namespace ec::ceph {
namespace {

using ::ceph::bufferptr;
using kernels::Residence;
using kernels::Source;
using kernels::Status;
using kernels::Target;

template <class T>
using PerChunk = boost::container::static_vector<T, gf::max_chunks>;

template <class T>
std::span<T> span_of(PerChunk<T>& v) {
  return {v.data(), v.size()};
}

/// Bytes that a chunk's length is rounded up to, as in Ceph's isa plugin; it decides what is on disk.
constexpr unsigned chunk_granularity = 32;

std::uint8_t* writable_bytes(bufferlist& l) { return reinterpret_cast<std::uint8_t*>(l.c_str()); }

int number_of(int shard) { return shard; }
template <class Value>
int number_of(const std::pair<const int, Value>& entry) {
  return entry.first;
}

int to_errno(Status status) {
  switch (status) {
    case Status::ok:
      return 0;
    case Status::unsupported:
      return -EINVAL;
    case Status::busy:
      return -EBUSY;
    case Status::fault:
      return -ENOMEM;  // host memory: only a back end that could not allocate leaves nobody to finish
    case Status::hung:
      return -ETIMEDOUT;
  }
  return -EINVAL;
}

/// Runs a call of the host's; nothing is thrown across its door.
template <class Body>
int at_the_door(Body&& body) noexcept try {
  return body();
} catch (...) {
  // Only allocation throws in there: std::bad_alloc, or ceph::buffer::bad_alloc, which the public header does
  // not define.
  return -ENOMEM;
}

/// The list for `shard` in a map that is filled in ascending order when there is no chunk mapping.
bufferlist& place(std::map<int, bufferlist>& map, int shard) {
  bufferlist& list = map.try_emplace(map.end(), shard)->second;
  if (list.length() != 0) list.clear();
  return list;
}

}  // namespace

int ErasureCode::init(ErasureCodeProfile& profile, std::ostream* ss) try {
  profile_ = parse_profile(profile);
  chunk_of_shard_.resize(get_chunk_count());
  for (unsigned c = 0; c < get_chunk_count(); ++c) chunk_of_shard_[static_cast<std::size_t>(shard_of(c))] = c;
  const codec::NodeSettings& node = codec::node_settings();
  codec_ = std::make_unique<codec::Codec>(
      profile_.technique, profile_.k, profile_.m,
      codec::Router(node.backend.value_or(profile_.backend), node.threshold_bytes, node.costs.table,
                    kernels::backends(), codec::stats(),
                    codec::validator([](const char* line) { std::fprintf(stderr, "%s\n", line); })));
  raw_profile_ = profile;
  return 0;
} catch (const codec::SetupError& e) {
  if (ss != nullptr) *ss << e.what();
  return -e.code();
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

int ErasureCode::create_rule(const std::string& name, CrushWrapper& crush, std::ostream* ss) const {
  return at_the_door([&] { return add_crush_rule(name, crush, profile_, ss); });
}

template <class Shards>
std::optional<gf::ChunkSet> ErasureCode::chunks_of(const Shards& shards) const {
  gf::ChunkSet chunks;
  for (const auto& entry : shards) {
    if (!is_shard(number_of(entry))) return std::nullopt;
    chunks.insert(chunk_of(number_of(entry)));
  }
  return chunks;
}

unsigned ErasureCode::get_chunk_size(unsigned stripe_width) const {
  const std::uint64_t chunk = (std::uint64_t{stripe_width} + profile_.k - 1) / profile_.k;
  return static_cast<unsigned>((chunk + chunk_granularity - 1) / chunk_granularity * chunk_granularity);
}

int ErasureCode::minimum_to_decode(const std::set<int>& want_to_read, const std::set<int>& available,
                                   std::map<int, std::vector<std::pair<int, int>>>* minimum) {
  return at_the_door([&] {
    const auto wanted = chunks_of(want_to_read), there = chunks_of(available);
    if (!wanted || !there) return -EINVAL;
    const auto read = smallest_read(profile_.k, *wanted, *there);
    if (!read) return -EIO;
    for (unsigned c : *read) (*minimum)[shard_of(c)] = {{0, get_sub_chunk_count()}};
    return 0;
  });
}

int ErasureCode::minimum_to_decode_with_cost(const std::set<int>& want_to_read,
                                             const std::map<int, int>& available, std::set<int>* minimum) {
  return at_the_door([&] {
    const auto wanted = chunks_of(want_to_read);
    if (!wanted || !chunks_of(available)) return -EINVAL;
    std::map<unsigned, int> costs;
    for (const auto& [shard, cost] : available) costs[chunk_of(shard)] = cost;
    const auto read = cheapest_read(profile_.k, *wanted, costs);
    if (!read) return -EIO;
    for (unsigned c : *read) minimum->insert(shard_of(c));
    return 0;
  });
}

int ErasureCode::encode(const std::set<int>& want_to_encode, const bufferlist& in,
                        std::map<int, bufferlist>* encoded) {
  return at_the_door([&] {
    const unsigned n = get_chunk_count();
    const std::uint64_t widest = std::uint64_t{in.length()} + std::uint64_t{profile_.k} * chunk_granularity;
    if (widest > std::numeric_limits<unsigned>::max()) return -EINVAL;
    const unsigned bytes = get_chunk_size(in.length());
    if (bytes == 0) {
      for (int shard : want_to_encode)
        if (is_shard(shard)) (*encoded)[shard].clear();
      return 0;
    }

    PerChunk<bufferptr> chunks;
    PerChunk<Source> data;
    PerChunk<Target> coding;
    ChunkCutter cutter(in);
    for (unsigned c = 0; c < profile_.k; ++c) {
      chunks.push_back(cutter.next(bytes));
      data.push_back(source_of(chunks.back()));
    }
    const auto encode_into_new_buffers = [&](Writes writes) {
      coding.clear();
      for (unsigned c = profile_.k; c < n; ++c) {
        chunks.push_back(make_buffer(bytes));
        coding.push_back(target_of(chunks.back(), writes));
      }
      return codec_->encode(span_of(data), span_of(coding), bytes);
    };
    Status status = encode_into_new_buffers(Writes::in_place);
    if (status == Status::hung) {
      for (; chunks.size() > profile_.k; chunks.pop_back()) abandon(std::move(chunks.back()));
      status = encode_into_new_buffers(Writes::staged);
    }
    if (status != Status::ok) return to_errno(status);

    const bool all =
        want_to_encode.size() == n && is_shard(*want_to_encode.begin()) && is_shard(*want_to_encode.rbegin());
    for (unsigned c = 0; c < n; ++c)
      if (all || want_to_encode.contains(shard_of(c)))
        place(*encoded, shard_of(c)).push_back(std::move(chunks[c]));
    return 0;
  });
}

int ErasureCode::encode_chunks(const std::set<int>&, std::map<int, bufferlist>* encoded) {
  return at_the_door([&] {
    PerChunk<Source> data;
    PerChunk<Target> coding;
    if (encoded->size() != get_chunk_count()) return -EINVAL;
    const unsigned bytes = encoded->begin()->second.length();
    for (unsigned c = 0; c < get_chunk_count(); ++c) {
      const auto at = encoded->find(shard_of(c));
      if (at == encoded->end() || at->second.length() != bytes) return -EINVAL;
      std::uint8_t* chunk = bytes == 0 ? nullptr : writable_bytes(at->second);
      if (c < profile_.k)
        data.push_back({chunk, Residence::pageable});
      else
        coding.push_back({chunk, Residence::pageable});
    }
    return bytes == 0 ? 0 : to_errno(codec_->encode(span_of(data), span_of(coding), bytes));
  });
}

/// In: where a chunk shall go, if the caller has a place. Out: the buffers made for the others.
struct ErasureCode::Reconstruction {
  /// Where to write chunk c; not for chunks of no bytes.
  Target target(unsigned c, unsigned bytes, Writes writes) {
    if (const auto place = places.find(c); place != places.end()) return {place->second, Residence::pageable};
    return target_of(made[c] = make_buffer(bytes), writes);
  }

  std::map<unsigned, std::uint8_t*> places;
  std::map<unsigned, bufferptr> made;
};

Status ErasureCode::apply(const codec::Plan& plan, std::span<const bufferlist* const> lists, Writes writes,
                          Reconstruction& result) const {
  PerChunk<Target> targets;
  for (auto c : plan.targets) targets.push_back(result.target(c, lists.front()->length(), writes));
  PerChunk<Source> sources;
  if (std::ranges::all_of(lists, [](const bufferlist* list) { return is_one_piece(*list); })) {
    for (const bufferlist* list : lists) sources.push_back(source_of(list->front()));
    return codec_->apply(plan, span_of(sources), span_of(targets), lists.front()->length());
  }
  sources.resize(lists.size());
  SegmentWalker walker(lists);
  while (const std::size_t segment = walker.next(span_of(sources))) {
    const Status status = codec_->apply(plan, span_of(sources), span_of(targets), segment);
    if (status != Status::ok) return status;
    for (Target& t : targets) t.data += segment;
  }
  return Status::ok;
}

int ErasureCode::reconstruct(const gf::ChunkSet& wanted, const std::map<int, bufferlist>& chunks,
                             Reconstruction& result) const {
  if (wanted.empty()) return 0;
  if (chunks.empty()) return -EIO;
  const auto available = chunks_of(chunks);
  const unsigned bytes = chunks.begin()->second.length();
  if (!available || !std::ranges::all_of(chunks, [&](const auto& c) { return c.second.length() == bytes; }))
    return -EINVAL;
  const auto plan = codec_->plan({*available, wanted});
  if (!plan) return available->count() < profile_.k ? -EIO : -ENOMEM;
  if (bytes == 0) return 0;

  PerChunk<const bufferlist*> lists;
  for (auto c : plan->sources) lists.push_back(&chunks.at(shard_of(c)));
  Status status = apply(*plan, span_of(lists), Writes::in_place, result);
  if (status == Status::hung) {
    for (auto& [chunk, buffer] : result.made) abandon(std::move(buffer));
    status = apply(*plan, span_of(lists), Writes::staged, result);
  }
  return to_errno(status);
}

int ErasureCode::decode(const std::set<int>& want_to_read, const std::map<int, bufferlist>& chunks,
                        std::map<int, bufferlist>* decoded, int) {
  return at_the_door([&] {
    gf::ChunkSet lost;
    for (int shard : want_to_read) {
      if (!is_shard(shard)) return -EINVAL;
      if (!chunks.contains(shard)) lost.insert(chunk_of(shard));
    }
    Reconstruction result;
    if (const int error = reconstruct(lost, chunks, result)) return error;
    for (int shard : want_to_read) {
      bufferlist& out = place(*decoded, shard);
      if (const auto there = chunks.find(shard); there != chunks.end())
        out = there->second;
      else if (const auto made = result.made.find(chunk_of(shard)); made != result.made.end())
        out.push_back(std::move(made->second));
    }
    return 0;
  });
}

int ErasureCode::decode_chunks(const std::set<int>&, const std::map<int, bufferlist>& chunks,
                               std::map<int, bufferlist>* decoded) {
  return at_the_door([&] {
    if (chunks.empty()) return -EIO;
    gf::ChunkSet lost;
    Reconstruction result;
    for (unsigned c = 0; c < get_chunk_count(); ++c) {
      if (chunks.contains(shard_of(c))) continue;
      lost.insert(c);
      const auto out = decoded->find(shard_of(c));
      if (out == decoded->end() || out->second.length() != chunks.begin()->second.length()) return -EINVAL;
      if (out->second.length() != 0) result.places[c] = writable_bytes(out->second);
    }
    return reconstruct(lost, chunks, result);
  });
}

int ErasureCode::decode_concat(const std::map<int, bufferlist>& chunks, bufferlist* decoded) {
  return at_the_door([&] {
    gf::ChunkSet lost;
    PerChunk<const bufferlist*> data;
    for (unsigned c = 0; c < profile_.k; ++c) {
      const auto at = chunks.find(shard_of(c));
      data.push_back(at == chunks.end() ? nullptr : &at->second);
      if (at == chunks.end()) lost.insert(c);
    }
    Reconstruction result;
    if (const int error = reconstruct(lost, chunks, result)) return error;
    for (unsigned c = 0; c < profile_.k; ++c) {
      if (data[c] != nullptr)
        decoded->append(*data[c]);
      else if (const auto made = result.made.find(c); made != result.made.end())
        decoded->push_back(std::move(made->second));
    }
    return 0;
  });
}

}  // namespace ec::ceph
