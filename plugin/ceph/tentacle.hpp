// The door for Ceph 20.
#pragma once

#include "ceph/tentacle.h"
#include "plugin/ceph/door.hpp"

namespace ec::ceph {

/// Where a function on ShardIdSet and ShardIdMap has a twin on std::set and std::map, both answer alike; a
/// map without room for k+m shards, or of another layout, is -EINVAL. No device writes the host's buffers in
/// place.
class Tentacle final : public Door<::ceph::tentacle::ErasureCodeInterface> {
 public:
  using ShardId = ::ceph::tentacle::ShardId;
  using BufferMap = ::ceph::tentacle::BufferMap;
  using ListMap = ::ceph::tentacle::ListMap;
  using Base = Door<::ceph::tentacle::ErasureCodeInterface>;
  using Base::Base;
  using Base::decode;
  using Base::decode_chunks;
  using Base::decode_concat;
  using Base::encode;
  using Base::encode_chunks;
  using Base::minimum_to_decode;
  using Base::minimum_to_decode_with_cost;

  int init(ErasureCodeProfile& profile, std::ostream* ss) override;
  const std::vector<ShardId>& get_chunk_mapping() const override { return mapping_; }
  std::size_t get_minimum_granularity() override { return 1; }
  std::uint64_t get_supported_optimizations() const override {
    using namespace ::ceph::tentacle;
    constexpr auto always = partial_read | partial_write | zero_in_zero_out | parity_delta;
    return code_.pool().allows_optimized_pools ? always | optimized_pools : always;
  }
  std::string get_optimizations_flags_string() const override {
    const std::string always = "partialread,partialwrite,zeroinout,paritydelta";
    return code_.pool().allows_optimized_pools ? always + ",optimizedsupport" : always;
  }

  int minimum_to_decode(const ShardIdSet& want_to_read, const ShardIdSet& available, ShardIdSet& minimum,
                        ShardIdMap<SubChunks>* sub_chunks) override;
  int minimum_to_decode_with_cost(const ShardIdSet& want_to_read, const ShardIdMap<int>& available,
                                  ShardIdSet* minimum) override {
    return choose_reads(want_to_read, available, minimum);
  }
  int encode(const ShardIdSet& want_to_encode, const bufferlist& in, ListMap* encoded) override {
    return encode_object(want_to_encode, in, encoded);
  }
  int decode(const ShardIdSet& want_to_read, const ListMap& chunks, ListMap* decoded, int) override {
    return decode_shards(want_to_read, chunks, decoded);
  }
  int decode_concat(const std::set<int>& want_to_read, const std::map<int, bufferlist>& chunks,
                    bufferlist* decoded) override;

  /// Data shards are read in `out` or, where it has none, in `in`; coding shards in `in` are not looked at.
  /// 0; -EINVAL if the buffers are not all of one length, or a shard is none of ours.
  int encode_chunks(const BufferMap& in, BufferMap& out) override;
  /// Replaces a buffer of another length in *delta. If there is no delta, the lengths differ or memory is
  /// short, the process ends after a line on stderr: the host would write data with stale parity.
  void encode_delta(const bufferptr& old_data, const bufferptr& new_data, bufferptr* delta) override;
  /// Coding shards in `in` and data shards in `out` are not looked at. If the buffers are not all of one
  /// length, the process ends as above.
  void apply_delta(const BufferMap& in, BufferMap& out) override;
  /// Writes every shard of `out`; a shard that is in `in` as well is copied. 0; -EIO if `in` does not
  /// suffice; -EINVAL for a shard outside 0..k+m-1 or buffers of unequal length.
  int decode_chunks(const ShardIdSet& want_to_read, BufferMap& in, BufferMap& out) override;

 private:
  static constexpr auto to_be_read = [](const bufferptr& b) {
    return source_at(readable(b).bytes, b.length());
  };
  static constexpr auto to_be_written = [](bufferptr& b) { return kernels::Target{writable_bytes(b), {}}; };
  /// The data shards of `in` and the coding shards of `out`. False if a map is not ours to use.
  bool divide(const BufferMap& in, BufferMap& out, DataChunks& data, Places& coding) const;
  /// One delta for all coding shards, the common call, which is short and needs no sets of chunks. False,
  /// and nothing done, if the call is another.
  bool apply_one_delta(const BufferMap& in, BufferMap& out) const noexcept;
  void apply_deltas(const BufferMap& in, BufferMap& out) const;

  std::vector<ShardId> mapping_;
};

}  // namespace ec::ceph
