// Shared by the two dialects of Ceph's interface: the functions on sets and maps of shards, over a pool's
// ErasureCode. `classic` has no others; `tentacle` has the same on its own sets and maps.
#pragma once

#include <cerrno>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "plugin/ceph/erasure_code.hpp"
#include "plugin/ceph/host.hpp"
#include "plugin/ceph/shards.hpp"

namespace ec::ceph {

/// Runs a call of the host's; no exception crosses its door.
template <class Body>
int at_the_door(Body&& body) noexcept try {
  return body();
} catch (...) {
  // Only allocation throws in there: std::bad_alloc, or ceph::buffer::bad_alloc, which the public header does
  // not define.
  return -ENOMEM;
}

/// One object a placement group. Thread safe after init(). No call throws. Every errno of a call is listed
/// below, except -ENOMEM, which all can return, and -EINVAL where the host hands in no container.
template <class HostsInterface>
class Door : public HostsInterface {
 public:
  using Interface = HostsInterface;

  explicit Door(Role role = Role::own) : code_(role) {}

  int init(ErasureCodeProfile& profile, std::ostream* ss) override { return code_.init(profile, ss); }
  const ErasureCodeProfile& get_profile() const override { return code_.profile(); }
  int create_rule(const std::string& name, CrushWrapper& crush, std::ostream* ss) const override {
    return at_the_door([&] { return add_crush_rule(name, crush, code_.pool(), ss); });
  }
  unsigned get_chunk_count() const override { return code_.n(); }
  unsigned get_data_chunk_count() const override { return code_.k(); }
  unsigned get_coding_chunk_count() const override { return code_.m(); }
  int get_sub_chunk_count() override { return 1; }
  unsigned get_chunk_size(unsigned stripe_width) const override { return code_.get_chunk_size(stripe_width); }

  int minimum_to_decode(const std::set<int>& want_to_read, const std::set<int>& available,
                        std::map<int, SubChunks>* minimum) override {
    return choose_reads(want_to_read, available, minimum);
  }
  int minimum_to_decode_with_cost(const std::set<int>& want_to_read, const std::map<int, int>& available,
                                  std::set<int>* minimum) override {
    return choose_reads(want_to_read, available, minimum);
  }
  int encode(const std::set<int>& want_to_encode, const bufferlist& in,
             std::map<int, bufferlist>* encoded) override {
    return encode_object(want_to_encode, in, encoded);
  }
  /// -EINVAL if the chunks are not k+m of equal length. The coding chunks are overwritten in place.
  int encode_chunks(const std::set<int>&, std::map<int, bufferlist>* encoded) override {
    return at_the_door([&] {
      const unsigned k = code_.k();
      if (encoded == nullptr || encoded->empty() || encoded->size() != code_.n()) return -EINVAL;
      PerChunk<kernels::Source> data(k, boost::container::default_init);
      PerChunk<kernels::Target> coding(code_.m(), boost::container::default_init);
      const unsigned bytes = encoded->begin()->second.length();
      int next = 0;
      for (auto& [shard, list] : *encoded) {
        if (shard != next || list.length() != bytes) return -EINVAL;
        std::uint8_t* const at = writable_bytes(list);
        const unsigned c = code_.chunk_of(next++);
        if (c < k)
          data[c] = source_at(at, bytes);
        else
          coding[c - k] = {at, kernels::Residence::pageable};
      }
      return code_.encode_chunks({data.data(), k}, {coding.data(), coding.size()}, bytes);
    });
  }
  int decode(const std::set<int>& want_to_read, const std::map<int, bufferlist>& chunks,
             std::map<int, bufferlist>* decoded, int) override {
    return decode_shards(want_to_read, chunks, decoded);
  }
  /// As decode, but every shard that is not in `chunks` is computed in place, in `decoded`.
  int decode_chunks(const std::set<int>&, const std::map<int, bufferlist>& chunks,
                    std::map<int, bufferlist>* decoded) override {
    return at_the_door([&] {
      if (decoded == nullptr) return -EINVAL;
      if (chunks.empty()) return -EIO;
      const Sources in = sources_of(chunks);
      Places out(code_.n());
      for (unsigned c = 0; c < code_.n(); ++c) {
        if (in.there.contains(c)) continue;
        const auto at = decoded->find(code_.shard_of(c));
        if (at == decoded->end()) return -EINVAL;
        out.add(c, {writable_bytes(at->second), kernels::Residence::pageable}, at->second.length());
      }
      return out.count == 0 ? 0 : code_.decode_chunks(in, out);
    });
  }
  /// As decode of all data chunks. Shares the buffers of `chunks` and computes nothing if no data is lost.
  int decode_concat(const std::map<int, bufferlist>& chunks, bufferlist* decoded) override {
    return at_the_door([&] { return concat(gf::ChunkSet::first(code_.k()), chunks, decoded); });
  }

 protected:
  /// 0; -EIO if `available`, a set or a map of costs, does not suffice; -EINVAL for a shard outside 0..k+m-1.
  template <class Want, class Available, class Minimum>
  int choose_reads(const Want& want_to_read, const Available& available, Minimum* minimum) const {
    return at_the_door([&] {
      const auto wanted = chunks_of(want_to_read);
      if (!wanted || !chunks_of(available) || !is_usable(minimum, code_.n())) return -EINVAL;
      PerChunk<Offer> offers;
      each_shard(available, [&](int shard, auto... cost) {
        offers.push_back({code_.chunk_of(shard), (cost + ... + 0)});
      });
      const auto read = code_.choose_reads(*wanted, {offers.data(), offers.size()});
      if (!read) return -EIO;
      for (unsigned c : *read) put(*minimum, code_.shard_of(c));
      return 0;
    });
  }
  /// 0; -EINVAL if k chunks of the input would not fit 32 bits, or another error, with *encoded empty. An
  /// empty input gives empty chunks.
  template <class Want, class Lists>
  int encode_object(const Want& want_to_encode, const bufferlist& in, Lists* encoded) const {
    if (!is_usable(&want_to_encode, 0) || !is_usable(encoded, code_.n())) return -EINVAL;
    const int error = at_the_door([&] {
      PerChunk<bufferlist*> lists(code_.n(), nullptr);
      std::list<bufferlist> not_wanted;
      const auto want = [&](unsigned c) { lists[c] = &place(*encoded, code_.shard_of(c)); };
      if (is_all(want_to_encode, code_.n()))
        for (unsigned c = 0; c < code_.n(); ++c) want(c);
      else
        each_shard(want_to_encode, [&](int shard) {
          if (code_.is_shard(shard)) want(code_.chunk_of(shard));
        });
      for (bufferlist*& list : lists)
        if (list == nullptr) list = &not_wanted.emplace_back();
      return code_.encode(in, {lists.data(), lists.size()});
    });
    if (error != 0) clear(*encoded);
    return error;
  }
  /// 0, with *decoded holding the wanted shards; -EIO if `chunks` do not suffice; -EINVAL for a wanted shard
  /// outside 0..k+m-1 and, if a shard is to be made, for such chunks or chunks of unequal length.
  template <class Want, class Lists>
  int decode_shards(const Want& want_to_read, const Lists& chunks, Lists* decoded) const {
    return at_the_door([&] {
      const auto wanted = chunks_of(want_to_read);
      if (!wanted || !is_usable(decoded, code_.n())) return -EINVAL;
      const Sources in = sources_of(chunks);
      PerChunk<bufferptr> made;
      if (const int error = code_.decode(*wanted - in.there, in, made)) return error;
      hand_out(*wanted, in, made,
               [&](unsigned c) -> bufferlist& { return place(*decoded, code_.shard_of(c)); });
      return 0;
    });
  }
  /// The wanted data chunks in order.
  int concat(const gf::ChunkSet& wanted, const std::map<int, bufferlist>& chunks, bufferlist* decoded) const {
    if (decoded == nullptr) return -EINVAL;
    const Sources in = sources_of(chunks);
    PerChunk<bufferptr> made;
    if (const int error = code_.decode(wanted - in.there, in, made)) return error;
    hand_out(wanted, in, made, [&](unsigned) -> bufferlist& { return *decoded; });
    return 0;
  }

  /// Adds each wanted chunk, from `in` or made, to its list.
  template <class ListOf>
  static void hand_out(const gf::ChunkSet& wanted, const Sources& in, PerChunk<bufferptr>& made,
                       ListOf list_of) {
    auto next = made.begin();
    for (unsigned c : wanted) {
      bufferlist& list = list_of(c);
      if (in.there.contains(c))
        list.append(*in[c].list);
      else if (next != made.end())
        list.push_back(std::move(*next++));
    }
  }

  /// The chunks that these shards keep: a set of shards, or the keys of a map. Nothing if one of them is no
  /// shard of ours.
  template <class Shards>
  std::optional<gf::ChunkSet> chunks_of(const Shards& shards) const {
    if (!is_usable(&shards, 0)) return std::nullopt;
    std::optional<gf::ChunkSet> chunks(std::in_place);
    each_shard(shards, [&](int shard, auto&...) {
      if (!chunks || !code_.is_shard(shard))
        chunks.reset();
      else
        chunks->insert(code_.chunk_of(shard));
    });
    return chunks;
  }
  /// Adds the wanted chunks of a map of buffers or of lists.
  template <class Map, class Chunk, class Make, class Want>
  void take(Map& map, Chunks<Chunk>& to, Make make, Want want) const {
    each_shard(map, [&](int shard, auto& chunk) {
      if (!code_.is_shard(shard))
        to.sound = false;
      else if (const unsigned c = code_.chunk_of(shard); want(c))
        to.add(c, make(chunk), chunk.length());
    });
  }
  static constexpr auto all_chunks = [](unsigned) { return true; };
  template <class Map>
  Sources sources_of(const Map& map) const {
    Sources in(code_.n());
    in.sound = is_usable(&map, 0);
    if (in.sound)
      take(
          map, in, [](const auto& chunk) { return readable(chunk); }, all_chunks);
    return in;
  }
  static Readable readable(const bufferptr& buffer) {
    return {buffer.length() == 0 ? nullptr : bytes_of(buffer), nullptr};
  }
  static Readable readable(const bufferlist& list) {
    return {list.get_num_buffers() == 1 ? bytes_of(list.front()) : nullptr, &list};
  }
  /// The bytes of a buffer, or of a list, which is put into one piece.
  static std::uint8_t* writable_bytes(auto& chunk) {
    if constexpr (requires { chunk.rebuild(); })
      if (chunk.get_num_buffers() > 1) return reinterpret_cast<std::uint8_t*>(chunk.c_str());
    return const_cast<std::uint8_t*>(readable(chunk).bytes);
  }

  ErasureCode code_;
};

/// The door for Ceph 16 to 19.
class Classic final : public Door<::ceph::ErasureCodeInterface> {
 public:
  using Door::Door;
  const std::vector<int>& get_chunk_mapping() const override { return code_.pool().mapping; }
};

}  // namespace ec::ceph
