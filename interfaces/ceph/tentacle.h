// Ceph's erasure-code interface of release 20 ("tentacle"), as its daemons call it.
//
// Declared here from the shipped binaries of 20.2.4: the virtual table of ErasureCodeInterface, read from the
// relocations of libec_isa.so, and the sizes and offsets of its types that no public header declares.
// The names are our own, in a namespace of their own: a virtual call goes by the slot. The order of the
// virtual functions IS the interface: slots 0 and 1 are the destructor, then one slot a function, in the
// order below. The plugin, its factory and the registry are declared in classic.h; the factory hands out an
// object of this type.
//
// A shard is a chunk's position after the chunk mapping. Every int returned is 0 or -errno unless said
// otherwise. Pools with allow_ec_optimizations call the functions on ShardIdSet and ShardIdMap, and any
// answer but 0 makes the OSD stop; all other pools call the deprecated functions, as in classic.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ceph/classic.h"

namespace ceph::tentacle {

/// shard_id_t
struct ShardId {
  std::int8_t id = 0;
};

/// shard_id_set, a bitset_set<128, shard_id_t>. Shard s is bit s % 64 of word s / 64. A host's object is
/// changed by its words alone: the end of its iteration points into the object.
struct ShardIdSet {
  ShardIdSet() = default;
  ShardIdSet(const ShardIdSet&) = delete;
  ShardIdSet& operator=(const ShardIdSet&) = delete;

  std::array<std::uint64_t, 2> words{};
  const ShardIdSet* end_of = this;
  ShardId end_position{-128};
};

/// shard_id_map<T>, a mini_flat_map<shard_id_t, T, signed char>: slots[s] is the entry of shard s. An entry
/// is made by slots[s].emplace(..) and ++entries. There are never more slots than the host has made.
template <class T>
struct ShardIdMap {
  struct End {
    const ShardIdMap* of;
    std::array<std::uint64_t, 3> entry{};  ///< none
    ShardId position;
  };

  /// Room for the shards 0..shards-1, as a host makes it.
  explicit ShardIdMap(std::size_t shards) : slots(shards) {}
  ShardIdMap(const ShardIdMap&) = delete;
  ShardIdMap& operator=(const ShardIdMap&) = delete;

  std::vector<std::optional<T>> slots;
  End end{this, {}, {static_cast<std::int8_t>(slots.size())}};
  End const_end{this, {}, {static_cast<std::int8_t>(slots.size())}};
  std::size_t entries = 0;
};

using SubChunks = std::vector<std::pair<int, int>>;  ///< (offset, count)
using BufferMap = ShardIdMap<bufferptr>;
using ListMap = ShardIdMap<bufferlist>;

static_assert(sizeof(ShardId) == 1);
static_assert(sizeof(ShardIdSet) == 32 && offsetof(ShardIdSet, words) == 0);
static_assert(offsetof(ShardIdSet, end_of) == 16 && offsetof(ShardIdSet, end_position) == 24);
static_assert(sizeof(bufferptr) == 16 && sizeof(std::optional<bufferptr>) == 24);
static_assert(sizeof(bufferlist) == 32 && sizeof(std::optional<bufferlist>) == 40);
static_assert(sizeof(std::optional<int>) == 8 && sizeof(std::optional<SubChunks>) == 32);
template <class T>
inline constexpr bool is_map_of_ceph_20 = sizeof(ShardIdMap<T>) == 112 &&
                                          offsetof(ShardIdMap<T>, slots) == 0 &&
                                          offsetof(ShardIdMap<T>, end) == 24 &&
                                          offsetof(ShardIdMap<T>, const_end) == 64 &&
                                          offsetof(ShardIdMap<T>, entries) == 104 &&
                                          sizeof(typename ShardIdMap<T>::End) == 40 &&
                                          offsetof(typename ShardIdMap<T>::End, of) == 0 &&
                                          offsetof(typename ShardIdMap<T>::End, entry) == 8 &&
                                          offsetof(typename ShardIdMap<T>::End, position) == 32;
static_assert(is_map_of_ceph_20<bufferptr> && is_map_of_ceph_20<bufferlist> && is_map_of_ceph_20<int> &&
              is_map_of_ceph_20<SubChunks>);

/// The bits of get_supported_optimizations().
enum Optimizations : std::uint64_t {
  partial_read = 1,   ///< only wanted shards are read
  partial_write = 2,  ///< writes are planned in units of 4 KiB. Without it OSDs of 20.2.4 stop at overwrites
  zero_in_zero_out = 4,
  zero_padding = 8,
  parity_delta = 16,    ///< encode_delta and apply_delta may be called
  sub_chunks = 32,      ///< minimum_to_decode() is asked for sub-chunks
  optimized_pools = 64  ///< the monitor allows allow_ec_optimizations
};

class ErasureCodeInterface {
 public:
  virtual ~ErasureCodeInterface() = default;

  /// As in classic.h. The monitor calls it a second time on the object of a factory.
  virtual int init(ErasureCodeProfile& profile, std::ostream* ss) = 0;
  virtual const ErasureCodeProfile& get_profile() const = 0;
  virtual int create_rule(const std::string& name, CrushWrapper& crush, std::ostream* ss) const = 0;
  virtual unsigned int get_chunk_count() const = 0;
  virtual unsigned int get_data_chunk_count() const = 0;
  virtual unsigned int get_coding_chunk_count() const = 0;
  virtual int get_sub_chunk_count() = 0;
  virtual unsigned int get_chunk_size(unsigned int stripe_width) const = 0;

  /// The shards to read; `minimum` is empty on entry. want_to_read may hold all k+m. sub_chunks is null
  /// unless they are supported.
  virtual int minimum_to_decode(const ShardIdSet& want_to_read, const ShardIdSet& available,
                                ShardIdSet& minimum, ShardIdMap<SubChunks>* sub_chunks) = 0;
  virtual int minimum_to_decode(const std::set<int>& want_to_read, const std::set<int>& available,
                                std::map<int, SubChunks>* minimum) = 0;
  virtual int minimum_to_decode_with_cost(const ShardIdSet& want_to_read, const ShardIdMap<int>& available,
                                          ShardIdSet* minimum) = 0;
  virtual int minimum_to_decode_with_cost(const std::set<int>& want_to_read,
                                          const std::map<int, int>& available, std::set<int>* minimum) = 0;
  /// All lengths are a multiple of this. No daemon of 20.2.4 calls the function.
  virtual std::size_t get_minimum_granularity() = 0;
  virtual int encode(const ShardIdSet& want_to_encode, const bufferlist& in, ListMap* encoded) = 0;
  virtual int encode(const std::set<int>& want_to_encode, const bufferlist& in,
                     std::map<int, bufferlist>* encoded) = 0;
  virtual int encode_chunks(const std::set<int>& want_to_encode, std::map<int, bufferlist>* encoded) = 0;
  /// in: data shards; absent shards count as zeros; `in` may hold one buffer of zeros several times.
  /// out: coding shards to be written in place; absent shards are not wanted. All shards are equally long.
  virtual int encode_chunks(const BufferMap& in, BufferMap& out) = 0;
  /// delta = old_data ^ new_data. `delta` may be the buffer of old_data.
  virtual void encode_delta(const bufferptr& old_data, const bufferptr& new_data, bufferptr* delta) = 0;
  /// in: the deltas of data shards. out: coding shards with their old content, which are brought up to date
  /// in place.
  virtual void apply_delta(const BufferMap& in, BufferMap& out) = 0;
  virtual int decode(const ShardIdSet& want_to_read, const ListMap& chunks, ListMap* decoded,
                     int chunk_size) = 0;
  virtual int decode(const std::set<int>& want_to_read, const std::map<int, bufferlist>& chunks,
                     std::map<int, bufferlist>* decoded, int chunk_size) = 0;
  /// Writes the shards of `out` in place. A shard in neither map is unknown, and not zero.
  virtual int decode_chunks(const ShardIdSet& want_to_read, BufferMap& in, BufferMap& out) = 0;
  virtual int decode_chunks(const std::set<int>& want_to_read, const std::map<int, bufferlist>& chunks,
                            std::map<int, bufferlist>* decoded) = 0;
  virtual const std::vector<ShardId>& get_chunk_mapping() const = 0;
  /// The wanted data chunks in order, concatenated.
  virtual int decode_concat(const std::set<int>& want_to_read, const std::map<int, bufferlist>& chunks,
                            bufferlist* decoded) = 0;
  virtual int decode_concat(const std::map<int, bufferlist>& chunks, bufferlist* decoded) = 0;
  virtual std::uint64_t get_supported_optimizations() const = 0;
  virtual std::string get_optimizations_flags_string() const = 0;
};

using ErasureCodeInterfaceRef = std::shared_ptr<ErasureCodeInterface>;

}  // namespace ceph::tentacle
