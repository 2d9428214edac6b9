// What one thread does with a codec, over and over: each call is made on one stripe in ordinary memory.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string_view>

#include "plugin/codec/codec.hpp"
#include "tests/common/stripes.hpp"

namespace ec::test {

/// Of a call that has coded the stripe.
inline bool is_right(const StripeSet& stripes, kernels::Status status) {
  const bool same = stripes.chunks == stripes.intact;
  if (!same) fmt::print(stderr, "a chunk has wrong bytes\n");
  return status == kernels::Status::ok && same;
}

inline bool encode_is_right(const codec::Codec& codec, StripeSet& stripes) {
  stripes.scramble(stripes.coding_numbers());
  return is_right(stripes,
                  codec.encode(stripes.views<kernels::Source>(stripes.data_numbers()),
                               stripes.views<kernels::Target>(stripes.coding_numbers()), stripes.bytes));
}

inline bool decode_is_right(const codec::Codec& codec, StripeSet& stripes, const gf::ChunkSet& lost) {
  stripes.scramble(lost);
  const auto plan = codec.code().plan({gf::ChunkSet::first(codec.k() + codec.m()) - lost, lost});
  return plan &&
         is_right(stripes, codec.decode(*plan, stripes.views<kernels::Source>(plan->sources),
                                        stripes.views<kernels::Target>(plan->targets), stripes.bytes));
}

/// An update that clears a data chunk.
inline bool update_is_right(const codec::Codec& codec, StripeSet& stripes, unsigned chunk) {
  stripes.expect_cleared(chunk);
  return is_right(stripes,
                  codec.update(chunk, {stripes.chunks[0][chunk].data(), {}},
                               stripes.views<kernels::Target>(stripes.coding_numbers()), stripes.bytes));
}

/// One round: encode, lose up to m chunks, decode, update. Whether every byte came out right.
inline bool round_is_right(const codec::Codec& codec, std::string_view technique, std::size_t bytes,
                           Random& random) {
  StripeSet stripes(technique, codec.k(), codec.m(), 1, bytes, random.next());
  gf::ChunkSet lost;
  for (unsigned i = 0; i < 1 + random.below(codec.m()); ++i) lost.insert(random.below(codec.k() + codec.m()));
  return encode_is_right(codec, stripes) && decode_is_right(codec, stripes, lost) &&
         update_is_right(codec, stripes, random.below(codec.k()));
}

}  // namespace ec::test
