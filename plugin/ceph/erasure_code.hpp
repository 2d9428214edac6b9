// Ceph's classic interface over a Codec: bufferlists in, bufferlists out.
#pragma once

#include <optional>

#include "ceph/classic.h"
#include "plugin/ceph/chunk_buffers.hpp"
#include "plugin/ceph/profile.hpp"
#include "plugin/codec/codec.hpp"

namespace ec::ceph {

using ::ceph::bufferlist;
using ::ceph::ErasureCodeProfile;

/// One object a placement group. Thread safe after init(). No call throws; every errno it can return is
/// below. None fails for a reason of the device: should it stop answering while it writes a result in place,
/// the buffers, made here, are given up for good and the CPU codes into new ones.
class ErasureCode final : public ::ceph::ErasureCodeInterface {
 public:
  /// 0; -EINVAL or -ENOENT as parse_profile says.
  int init(ErasureCodeProfile& profile, std::ostream* ss) override;
  const ErasureCodeProfile& get_profile() const override { return raw_profile_; }
  int create_rule(const std::string& name, CrushWrapper& crush, std::ostream* ss) const override;

  unsigned get_chunk_count() const override { return profile_.k + profile_.m; }
  unsigned get_data_chunk_count() const override { return profile_.k; }
  unsigned get_coding_chunk_count() const override { return profile_.m; }
  int get_sub_chunk_count() override { return 1; }
  /// ceil(stripe_width / k) rounded up to 32 bytes, as Ceph's isa plugin.
  unsigned get_chunk_size(unsigned stripe_width) const override;
  const std::vector<int>& get_chunk_mapping() const override { return profile_.mapping; }

  /// 0; -EIO if `available` does not suffice; -EINVAL for a shard outside 0..k+m-1.
  int minimum_to_decode(const std::set<int>& want_to_read, const std::set<int>& available,
                        std::map<int, std::vector<std::pair<int, int>>>* minimum) override;
  int minimum_to_decode_with_cost(const std::set<int>& want_to_read, const std::map<int, int>& available,
                                  std::set<int>* minimum) override;

  /// 0; -ENOMEM; -EINVAL if k chunks of the input would not fit 32 bits. An empty input gives empty chunks.
  int encode(const std::set<int>& want_to_encode, const bufferlist& in,
             std::map<int, bufferlist>* encoded) override;
  /// 0; -ENOMEM; -EINVAL if the chunks are not k+m of equal length. The coding chunks are overwritten where
  /// they are, and the caller keeps them whatever happens, so no device writes them in place: they count as
  /// pageable.
  int encode_chunks(const std::set<int>& want_to_encode, std::map<int, bufferlist>* encoded) override;
  /// 0, with *decoded holding the wanted shards; -EIO if `chunks` do not suffice; -EINVAL for a shard outside
  /// 0..k+m-1 or chunks of unequal length; -ENOMEM. chunk_size is not needed and ignored.
  int decode(const std::set<int>& want_to_read, const std::map<int, bufferlist>& chunks,
             std::map<int, bufferlist>* decoded, int chunk_size) override;
  /// As decode, but every shard that is not in `chunks` is computed where it is in `decoded`. Residence as in
  /// encode_chunks.
  int decode_chunks(const std::set<int>& want_to_read, const std::map<int, bufferlist>& chunks,
                    std::map<int, bufferlist>* decoded) override;
  /// As decode of all data chunks. Shares the buffers of `chunks` and computes nothing if none is lost.
  int decode_concat(const std::map<int, bufferlist>& chunks, bufferlist* decoded) override;

 private:
  /// Chunk i (data first) is kept by this shard, and the other way round.
  int shard_of(unsigned chunk) const {
    return profile_.mapping.empty() ? static_cast<int>(chunk) : profile_.mapping[chunk];
  }
  unsigned chunk_of(int shard) const { return chunk_of_shard_[static_cast<std::size_t>(shard)]; }
  bool is_shard(int shard) const { return shard >= 0 && shard < static_cast<int>(get_chunk_count()); }

  /// The chunks that these shards keep: a set of shards, or the keys of a map. Nothing if one is no shard of
  /// ours.
  template <class Shards>
  std::optional<gf::ChunkSet> chunks_of(const Shards& shards) const;

  struct Reconstruction;
  /// Makes the targets of `plan` out of `lists`, which are in the order of its sources and not empty.
  /// Statuses are those of Codec::apply; hung only for Writes::in_place.
  kernels::Status apply(const codec::Plan& plan, std::span<const bufferlist* const> lists, Writes writes,
                        Reconstruction& result) const;
  /// Makes the chunks `wanted`, which `chunks` lack. 0, also where none is wanted; -EIO, -EINVAL, -ENOMEM.
  int reconstruct(const gf::ChunkSet& wanted, const std::map<int, bufferlist>& chunks,
                  Reconstruction& result) const;

  ErasureCodeProfile raw_profile_;
  PoolProfile profile_;
  std::vector<unsigned> chunk_of_shard_;
  std::unique_ptr<codec::Codec> codec_;
};

}  // namespace ec::ceph
