// One erasure code at work: encode, decode and update on chunks, wherever they lie. Knows no host.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gf/chunk_set.hpp"
#include "gf/decode_plan.hpp"
#include "gf/generator.hpp"
#include "gf/signature_cache.hpp"
#include "kernels/backend.hpp"
#include "plugin/codec/routing/router.hpp"

namespace ec::codec {

/// A decode plan with its program: `program` makes chunk targets[i] out of chunks sources[0..].
struct Plan {
  explicit Plan(gf::DecodePlan plan);

  std::vector<std::uint8_t> sources;
  std::vector<std::uint8_t> targets;
  kernels::Program program;
};

/// All data that depends on technique, k and m alone: programs and decode plans. Thread safe. Codecs of the
/// same code share one Code, so a daemon with a codec for each placement group solves each signature once.
class Code {
 public:
  /// The shared instance. Throws SetupError(EINVAL) for a shape that gf::shape_error refuses, and
  /// std::bad_alloc. Usable while static objects are destroyed, and in a child of fork(), which shares none
  /// with its parent.
  static std::shared_ptr<Code> get(gf::Technique technique, unsigned k, unsigned m);

  /// A code by any coding matrix (m x k, k and m at least 1, k + m at most gf::max_chunks), MDS or not.
  explicit Code(gf::Matrix coding);

  unsigned k() const { return encode_.sources(); }
  unsigned m() const { return encode_.targets(); }
  /// Makes the coding chunks of the data chunks.
  const kernels::Program& encode_program() const { return encode_; }
  /// Column `chunk` of the coding matrix (m x 1): the effect of a change of this data chunk on coding chunks,
  /// and the coding chunks where all other data is zero.
  const kernels::Program& update_program(unsigned chunk) const { return *columns_[chunk]; }
  /// The plan for a signature, from the cache or solved now; null if the available chunks do not give the
  /// wanted ones, for example fewer than k of an MDS code, or memory ran out.
  std::shared_ptr<const Plan> plan(const gf::ErasureSignature& signature) noexcept;
  /// The coding chunks `wanted` out of the data chunks `available` where all other data is zero, from the
  /// cache or made now; null if memory ran out.
  std::shared_ptr<const Plan> part(const gf::ErasureSignature& signature) noexcept;
  /// plan.targets are all chunks of `of` that follow from the others, plan.sources: the chunks agree where
  /// the plan makes the targets' bytes. From the cache or made now; null if memory ran out.
  std::shared_ptr<const Plan> checks(const gf::ChunkSet& of) noexcept;

 private:
  template <class Make>
  std::shared_ptr<const Plan> cached(const gf::ErasureSignature& key, Make make) noexcept;

  kernels::Program encode_;
  std::vector<std::unique_ptr<kernels::Program>> columns_;
  gf::SignatureCache<Plan> plans_;  ///< and parts and checks
};

/// Immutable after construction; all calls are thread safe and do not throw. `bytes` is the length of every
/// chunk; zero is allowed. Chunks may have any alignment and residence, and may be mixed; Router chooses the
/// back end. `pageable` and statuses: see Router::transform; a device fault never surfaces for host memory.
class Codec {
 public:
  /// Throws SetupError(EINVAL) for a shape that gf::shape_error refuses.
  Codec(gf::Technique technique, unsigned k, unsigned m, const Router& router)
      : code_(Code::get(technique, k, m)), router_(router) {}
  /// A code by any matrix, see Code; no other codec shares its plans.
  Codec(gf::Matrix coding, const Router& router)
      : code_(std::make_shared<Code>(std::move(coding))), router_(router) {}

  unsigned k() const { return code_->k(); }
  unsigned m() const { return code_->m(); }
  const Router& router() const { return router_; }
  /// Lives as long as the codec. Its programs and plans are for jobs of one's own making, too.
  Code& code() const { return *code_; }

  /// data: k chunks; coding: m chunks, overwritten.
  kernels::Status encode(std::span<const kernels::Source> data, std::span<const kernels::Target> coding,
                         std::size_t bytes, bool pageable = false) const noexcept {
    return router_.transform({&code_->encode_program(), data, coding, bytes}, Operation::encode, pageable);
  }

  /// Applies a plan: sources and targets are in the order of plan.sources and plan.targets. A plan that makes
  /// nothing is done without a back end.
  kernels::Status decode(const Plan& plan, std::span<const kernels::Source> sources,
                         std::span<const kernels::Target> targets, std::size_t bytes,
                         bool pageable = false) const noexcept {
    if (targets.empty()) return kernels::Status::ok;
    return router_.transform({&plan.program, sources, targets, bytes}, Operation::decode, pageable);
  }

  /// coding ^= column(chunk) . delta, where delta = old ^ new of data chunk `chunk` (< k); coding: m chunks.
  kernels::Status update(unsigned chunk, kernels::Source delta, std::span<const kernels::Target> coding,
                         std::size_t bytes, bool pageable = false) const noexcept {
    return router_.transform({&code_->update_program(chunk), {&delta, 1}, coding, bytes}, Operation::update,
                             pageable);
  }

 private:
  std::shared_ptr<Code> code_;
  Router router_;
};

}  // namespace ec::codec
