// What one thread does with a codec, over and over.
#pragma once

#include <cstddef>
#include <string_view>

#include "plugin/codec/codec.hpp"
#include "tests/plugin/codec/stripe.hpp"

namespace ec::test {

/// Whether the coding chunks of a stripe become those of one to whose chunk this was added.
inline bool update_is_right(const codec::Codec& codec, Stripe stripe, unsigned chunk,
                            const oracle::Bytes& delta) {
  Stripe after = stripe;
  for (std::size_t i = 0; i < delta.size(); ++i) after.chunks[chunk][i] ^= delta[i];
  after.replace(chunk, after.chunks[chunk]);
  stripe.chunks[chunk] = after.chunks[chunk];
  return codec.update(chunk, {delta.data()}, stripe.coding(), delta.size()) == kernels::Status::ok &&
         stripe.chunks == after.chunks;
}

/// One round in ordinary memory: encode, lose up to m chunks, decode, update. Whether every byte came out
/// right.
inline bool round_is_right(const codec::Codec& codec, std::string_view technique, std::size_t bytes,
                           Random& random) {
  const unsigned k = codec.k(), m = codec.m();
  Stripe stripe(technique, k, m, bytes, random.next());
  stripe.scramble_coding();
  if (codec.encode(stripe.data(), stripe.coding(), bytes) != kernels::Status::ok ||
      stripe.chunks != stripe.intact)
    return false;
  gf::ChunkSet lost;
  for (unsigned i = 0; i < 1 + random.below(m); ++i) lost.insert(random.below(k + m));
  for (auto c : lost) stripe.scramble(c);
  const auto plan = codec.plan({gf::ChunkSet::first(k + m) - lost, lost});
  if (!plan ||
      codec.decode(*plan, stripe.sources(plan->sources), stripe.targets(plan->targets), bytes) !=
          kernels::Status::ok ||
      stripe.chunks != stripe.intact)
    return false;
  return update_is_right(codec, stripe, random.below(k), random.bytes(bytes));
}

}  // namespace ec::test
