// Calls of the host: the choice of chunks and of the buffers for the result.
#include "plugin/ceph/erasure_code.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>
#include <ostream>
#include <tuple>
#include <vector>

#include "plugin/ceph/host.hpp"
#include "plugin/ceph/portable.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::ceph {
namespace {

using gf::ChunkSet;
using kernels::Source;
using kernels::Status;
using kernels::Target;

template <class T>
std::span<T> span_of(PerChunk<T>& v) {
  return {v.data(), v.size()};
}

/// The chunks, which are of first..end-1, side by side in ascending order: as they lie if all are there.
template <class Chunk>
std::span<Chunk> side_by_side(Chunks<Chunk>& chunks, unsigned first, unsigned end) {
  Chunk* const at = chunks.data();
  if (chunks.count == end - first) return {at + first, chunks.count};
  Chunk* to = at;
  // A look at each costs less than to walk the set.
  for (unsigned c = first; c < end; ++c)
    if (chunks.there.contains(c)) *to++ = at[c];
  return {at, to};
}

/// Whether all chunks are sound and of one length. No chunks fit any length.
template <class Chunk>
bool is_one_job(const Chunks<Chunk>& in, const Places& out) {
  return in.sound && out.sound && (in.count == 0 || out.count == 0 || in.bytes == out.bytes);
}

}  // namespace

int ErasureCode::init(ErasureCodeProfile& profile, std::ostream* ss, unsigned most_shards) try {
  PoolProfile parsed = parse_profile(role_, profile, release_of(host_version()), is_osd());
  // A monitor makes new pools; an OSD serves pools that are there.
  if (role_ == Role::own && is_monitor()) most_shards = most_pool_shards;
  if (parsed.k + parsed.m > most_shards)
    refuse(EINVAL, "k={} and m={}: k+m must be at most {} in a pool of Ceph", parsed.k, parsed.m,
           most_shards);
  std::vector<unsigned> chunk_of_shard(parsed.k + parsed.m);
  for (unsigned c = 0; c < chunk_of_shard.size(); ++c)
    chunk_of_shard[parsed.mapping.empty() ? c : static_cast<unsigned>(parsed.mapping[c])] = c;
  ErasureCodeProfile raw = profile;
  const codec::NodeSettings& node = codec::node_settings();
  auto codec = std::make_unique<codec::Codec>(
      parsed.technique, parsed.k, parsed.m,
      codec::Router(node.backend.value_or(parsed.backend), node.threshold_bytes, kernels::backends(),
                    codec::stats(),
                    codec::validator([](const char* line) { std::fprintf(stderr, "%s\n", line); })));
  raw_profile_ = std::move(raw);
  profile_ = std::move(parsed);
  chunk_of_shard_ = std::move(chunk_of_shard);
  codec_ = std::move(codec);
  return 0;
} catch (const codec::SetupError& e) {
  if (ss != nullptr) *ss << e.what();
  return -e.code();
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

unsigned ErasureCode::get_chunk_size(unsigned stripe_width) const {
  const std::uint64_t chunk = (std::uint64_t{stripe_width} + profile_.k - 1) / profile_.k;
  const std::uint64_t rest = profile_.chunk_granularity - 1;
  return static_cast<unsigned>((chunk + rest) & ~rest);
}

std::optional<ChunkSet> ErasureCode::choose_reads(const ChunkSet& wanted, std::span<Offer> there) const {
  const bool lowest = profile_.reads_lowest;
  if (lowest)
    for (Offer& o : there) o.cost = 0;
  const auto rank = [&](const Offer& o) {
    return std::tuple(o.cost, !lowest && !wanted.contains(o.chunk), o.chunk);
  };
  std::ranges::sort(there, {}, rank);
  ChunkSet available, cheapest;
  std::int64_t wanted_cost = 0, cheapest_cost = 0;
  for (std::size_t i = 0; i < there.size(); ++i) {
    const auto& [chunk, cost] = there[i];
    available.insert(chunk);
    if (wanted.contains(chunk)) wanted_cost += cost;
    if (i >= k()) continue;
    cheapest.insert(chunk);
    cheapest_cost += cost;
  }
  const bool enough = there.size() >= k();
  if (available.includes(wanted) && (!enough || wanted_cost <= cheapest_cost)) return wanted;
  if (!enough) return std::nullopt;
  return cheapest;
}

int ErasureCode::encode(const bufferlist& in, std::span<bufferlist* const> lists) const {
  const std::uint64_t widest = std::uint64_t{in.length()} + std::uint64_t{k()} * profile_.chunk_granularity;
  if (widest > std::numeric_limits<unsigned>::max()) return -EINVAL;
  const unsigned bytes = get_chunk_size(in.length());
  if (bytes == 0) return 0;

  PerChunk<Source> data(k(), boost::container::default_init);
  PerChunk<Target> coding(m(), boost::container::default_init);
  ChunkCutter cutter(in);
  for (unsigned c = 0; c < k(); ++c) data[c] = cutter.next(bytes, *lists[c]);
  const auto encode_into_new_buffers = [&](Writes writes) {
    NewBuffers buffers(m(), bytes);
    for (unsigned c = 0; c < m(); ++c) {
      bufferptr buffer = buffers.next();
      coding[c] = target_of(buffer, writes);
      lists[k() + c]->push_back(std::move(buffer));
    }
    return codec_->encode(span_of(data), span_of(coding), bytes, all_pageable);
  };
  Status status = encode_into_new_buffers(Writes::in_place);
  if (status == Status::hung) {
    for (bufferlist* list : lists.subspan(k())) {
      abandon(list->front());
      list->clear();
    }
    status = encode_into_new_buffers(Writes::staged);
  }
  return to_errno(status);
}

int ErasureCode::code_some(DataChunks& data, Places& coding, codec::Operation operation) const {
  if (!is_one_job(data, coding)) return -EINVAL;
  if (coding.count == 0 || coding.bytes == 0) return 0;
  const auto targets = side_by_side(coding, k(), n());
  if (data.count == 0) {
    if (operation == codec::Operation::encode)
      for (const Target& t : targets) std::memset(t.data, 0, coding.bytes);
    return 0;
  }
  const auto sources = side_by_side(data, 0, k());
  codec::Code& code = codec_->code();
  PlanPointer part;
  const kernels::Program* program = &code.encode_program();
  if (sources.size() == 1 && targets.size() == m()) {
    program = &code.update_program(*data.there.begin());
  } else if (sources.size() != k() || targets.size() != m()) {
    part = code.part({data.there, coding.there});
    if (!part) return -ENOMEM;
    program = &part->program;
  }
  return to_errno(
      codec_->router().transform({program, sources, targets, coding.bytes}, operation, all_pageable));
}

int ErasureCode::find_plan(const ChunkSet& wanted, const Sources& in, PlanPointer& plan) const {
  if (!in.sound) return -EINVAL;
  if (in.count == 0) return -EIO;
  plan = codec_->code().plan({in.there, wanted});
  if (!plan) return in.count < k() ? -EIO : -ENOMEM;
  return 0;
}

Status ErasureCode::apply(const codec::Plan& plan, const Sources& in, std::span<Target> targets) const {
  PerChunk<Source> sources;
  std::vector<bufferlist> gathered;
  for (auto c : plan.sources)
    sources.push_back(in[c].bytes != nullptr
                          ? source_at(in[c].bytes, in.bytes)
                          : ChunkCutter(*in[c].list).next(in.bytes, gathered.emplace_back()));
  return codec_->decode(plan, span_of(sources), targets, in.bytes, all_pageable);
}

int ErasureCode::decode(const ChunkSet& wanted, const Sources& in, PerChunk<bufferptr>& made) const {
  PlanPointer plan;
  if (wanted.empty()) return 0;
  if (const int error = find_plan(wanted, in, plan)) return error;
  if (in.bytes == 0) return 0;
  const auto decode_into_new_buffers = [&](Writes writes) {
    PerChunk<Target> targets;
    NewBuffers buffers(static_cast<unsigned>(plan->targets.size()), in.bytes);
    while (made.size() < plan->targets.size()) {
      made.push_back(buffers.next());
      targets.push_back(target_of(made.back(), writes));
    }
    return apply(*plan, in, span_of(targets));
  };
  Status status = decode_into_new_buffers(Writes::in_place);
  if (status == Status::hung) {
    for (; !made.empty(); made.pop_back()) abandon(made.back());
    status = decode_into_new_buffers(Writes::staged);
  }
  return to_errno(status);
}

int ErasureCode::decode_chunks(const Sources& in, Places& out) const {
  PlanPointer plan;
  if (!is_one_job(in, out)) return -EINVAL;
  if (in.bytes != 0)
    for (unsigned c : in.there& out.there) std::memmove(out[c].data, in[c].bytes, in.bytes);
  out.there = out.there - in.there;
  out.count = out.there.count();
  if (out.count == 0) return 0;
  if (const int error = find_plan(out.there, in, plan)) return error;
  if (in.bytes == 0) return 0;
  return to_errno(apply(*plan, in, side_by_side(out, 0, n())));
}

}  // namespace ec::ceph
