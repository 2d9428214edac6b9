// The code of one pool, for a host of any dialect: chunks by number (data first), buffers by pointer. The
// host's maps and sets are the doors' business (door.hpp).
#pragma once

#include <boost/container/small_vector.hpp>
#include <cerrno>
#include <memory>
#include <optional>

#include "ceph/classic.h"
#include "plugin/ceph/chunk_buffers.hpp"
#include "plugin/ceph/profile.hpp"
#include "plugin/codec/codec.hpp"

namespace ec::ceph {

using ::ceph::ErasureCodeProfile;

/// Values by chunk: for common codes on the stack, which may be a fiber's; for wide codes elsewhere.
template <class T>
using PerChunk = boost::container::small_vector<T, 32>;

/// Chunks of one call, by number. Only the chunks in `there` are set.
template <class Chunk>
struct Chunks {
  /// n: all chunks of the code.
  explicit Chunks(unsigned n) : at_(n, boost::container::default_init) {}

  void add(unsigned c, Chunk chunk, unsigned length) {
    sound = sound && (count == 0 || length == bytes);
    bytes = length;
    there.insert(c);
    ++count;
    (*this)[c] = chunk;
  }
  Chunk* data() { return at_.data(); }
  Chunk& operator[](unsigned c) { return at_[c]; }
  const Chunk& operator[](unsigned c) const { return at_[c]; }

  gf::ChunkSet there;
  unsigned count = 0;
  unsigned bytes = 0;  ///< of each chunk
  bool sound = true;   ///< all have this length, and none is a chunk of another code

 private:
  PerChunk<Chunk> at_;
};

/// To be read, each in one piece.
using DataChunks = Chunks<kernels::Source>;
/// To be read: where they lie in one piece, or a list of any number of pieces.
struct Readable {
  const std::uint8_t* bytes;  ///< null: none, or *list has several pieces
  const bufferlist* list;
};
using Sources = Chunks<Readable>;
/// Chunks to write in place. The host keeps these buffers whatever happens, so no device writes them: they
/// count as pageable.
using Places = Chunks<kernels::Target>;

/// A chunk that can be read, and its cost.
struct Offer {
  unsigned chunk;
  int cost;
};

/// The answer to the host.
inline int to_errno(kernels::Status status) {
  // A fault in host memory: a back end could not allocate, and no other could finish the job.
  static constexpr int errnos[] = {0, EINVAL, EBUSY, ENOMEM, ETIMEDOUT};
  return -errnos[static_cast<std::size_t>(status)];
}

/// Buffers of the host are pinned only under the preload, and there a router looks at each chunk anyway.
constexpr bool all_pageable = true;

/// One object a placement group. Thread safe after init(), which may be called again. Every errno of a call
/// is listed below, except -ENOMEM, which all can return; allocation throws. No call fails because of the
/// device: if it stops answering while it writes a result in place, the buffers, made here, are given up for
/// good and the CPU codes into new ones.
class ErasureCode {
 public:
  explicit ErasureCode(Role role) : role_(role) {}
  /// 0; -EINVAL or -ENOENT as parse_profile says, and -EINVAL for more chunks than the host takes. A
  /// failure leaves the object unchanged. Throws nothing.
  int init(ErasureCodeProfile& profile, std::ostream* ss, unsigned most_shards = gf::max_chunks);
  const ErasureCodeProfile& profile() const { return raw_profile_; }
  const PoolProfile& pool() const { return profile_; }

  unsigned k() const { return profile_.k; }
  unsigned m() const { return profile_.m; }
  unsigned n() const { return profile_.k + profile_.m; }
  /// This shard keeps chunk i, and the other way round.
  int shard_of(unsigned chunk) const {
    return profile_.mapping.empty() ? static_cast<int>(chunk) : profile_.mapping[chunk];
  }
  unsigned chunk_of(int shard) const { return chunk_of_shard_[static_cast<std::size_t>(shard)]; }
  bool is_shard(int shard) const { return shard >= 0 && shard < static_cast<int>(n()); }

  /// ceil(stripe_width / k) rounded up to the granularity of the profile: 32 bytes, as Ceph's isa and
  /// jerasure plugins, except with jerasure-per-chunk-alignment.
  unsigned get_chunk_size(unsigned stripe_width) const;

  /// The chunks to read to have `wanted`: the wanted chunks if all are there and no k chunks cost less in
  /// all, otherwise the k of least cost (the code is MDS); of equal ones the wanted chunks first, then by
  /// index, data before coding. In the role of one of Ceph's own plugins by index alone, as these choose.
  /// there: no chunk twice; changes. Nothing if fewer than k are there.
  std::optional<gf::ChunkSet> choose_reads(const gf::ChunkSet& wanted, std::span<Offer> there) const;

  /// Fills lists, which are empty, with all k+m chunks of an object; an empty object leaves them empty.
  /// -EINVAL if k chunks of the object would not fit 32 bits.
  int encode(const bufferlist& in, std::span<bufferlist* const> lists) const;
  /// Some coding chunks by some data chunks. encode: makes them; absent data chunks count as zeros and cost
  /// nothing. update: coding ^= the product of these changes of data chunks. -EINVAL if the chunks are not
  /// sound, or of two lengths. Chunks by pointer may change places, here and below.
  int code_some(DataChunks& data, Places& coding, codec::Operation operation) const;
  /// All coding chunks from all data chunks, of `bytes` each. Such a call is short, and needs no set of
  /// chunks.
  int encode_chunks(std::span<const kernels::Source> data, std::span<const kernels::Target> coding,
                    unsigned bytes) const {
    return bytes == 0 ? 0 : to_errno(codec_->encode(data, coding, bytes, all_pageable));
  }
  /// update by one delta, of data chunk `chunk`, to all coding chunks.
  int apply_delta(unsigned chunk, kernels::Source delta, std::span<const kernels::Target> coding,
                  unsigned bytes) const {
    return to_errno(codec_->update(chunk, delta, coding, bytes, all_pageable));
  }
  /// Makes the wanted chunks, which are not in `in`. 0, also where no chunk is wanted; -EIO if `in` does not
  /// suffice; -EINVAL if `in` is not sound.
  int decode(const gf::ChunkSet& wanted, const Sources& in, PerChunk<bufferptr>& made) const;
  /// The same in place, for all chunks of `out`. A chunk that `in` has, in one piece, is copied. -EINVAL
  /// also if `out` is not sound, or of another length.
  int decode_chunks(const Sources& in, Places& out) const;

 private:
  using PlanPointer = std::shared_ptr<const codec::Plan>;
  int find_plan(const gf::ChunkSet& wanted, const Sources& in, PlanPointer& plan) const;
  /// Returns a status of Codec::decode; hung only if a target is not pageable.
  kernels::Status apply(const codec::Plan& plan, const Sources& in, std::span<kernels::Target> targets) const;

  Role role_;
  ErasureCodeProfile raw_profile_;
  PoolProfile profile_;
  std::vector<unsigned> chunk_of_shard_;
  std::unique_ptr<codec::Codec> codec_;
};

}  // namespace ec::ceph
