// The codes of the process, and the plans of one code.
#include "plugin/codec/codec.hpp"

#include <pthread.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <new>
#include <tuple>

#include "plugin/codec/settings/settings.hpp"

namespace ec::codec {
namespace {

/// As many signatures as Ceph's isa plugin keeps for one matrix type.
constexpr std::size_t cached_plans = 2516;

using KnownCodes = std::map<std::tuple<gf::Technique, unsigned, unsigned>, std::weak_ptr<Code>>;

/// Without a destructor, as NeverDestroyed.
struct Codes {
  std::mutex mutex;
  KnownCodes* known = nullptr;
};
constinit Codes codes;
/// A thread of the parent may have had the mutex, or a cache's lock, so a child begins with no codes.
[[maybe_unused]] const int at_fork = pthread_atfork(nullptr, nullptr, [] { new (&codes) Codes; });

}  // namespace

Plan::Plan(gf::DecodePlan plan)
    : sources(std::move(plan.sources)),
      targets(std::move(plan.targets)),
      program(std::move(plan.matrix), {sources, targets}) {}

std::shared_ptr<Code> Code::get(gf::Technique technique, unsigned k, unsigned m) {
  if (const auto error = gf::shape_error(technique, k, m); !error.empty()) throw SetupError(EINVAL, error);
  const std::lock_guard lock(codes.mutex);
  if (codes.known == nullptr) codes.known = new KnownCodes;
  std::weak_ptr<Code>& place = (*codes.known)[{technique, k, m}];
  auto code = place.lock();
  if (!code) place = code = std::make_shared<Code>(gf::coding_matrix(technique, k, m));
  return code;
}

Code::Code(gf::Matrix coding) : encode_(std::move(coding)), plans_(cached_plans) {
  for (unsigned c = 0; c < k(); ++c) {
    gf::Matrix column(m(), 1);
    for (unsigned r = 0; r < m(); ++r) column(r, 0) = encode_.matrix()(r, c);
    columns_.push_back(std::make_unique<kernels::Program>(std::move(column)));
  }
}

/// The plan at `key`, or the one that make() solves.
template <class Make>
std::shared_ptr<const Plan> Code::cached(const gf::ErasureSignature& key, Make make) noexcept try {
  if (auto found = plans_.find(key)) return found;
  std::optional<gf::DecodePlan> made = make();
  if (!made) return nullptr;
  return plans_.insert(key, std::make_shared<const Plan>(std::move(*made)));
} catch (const std::bad_alloc&) {
  return nullptr;
}

std::shared_ptr<const Plan> Code::plan(const gf::ErasureSignature& signature) noexcept {
  bool is_known = true;
  auto plan = cached(signature, [&] {
    is_known = false;
    return gf::make_decode_plan(encode_.matrix(), signature);
  });
  if (plan) stats().happened(is_known ? Event::plan_found : Event::plan_solved);
  return plan;
}

std::shared_ptr<const Plan> Code::part(const gf::ErasureSignature& signature) noexcept {
  // Never the key of a plan: it has a chunk that no code has.
  static_assert(gf::max_chunks < gf::ChunkSet::capacity);
  gf::ErasureSignature key = signature;
  key.available.insert(gf::max_chunks);
  return cached(key, [&]() -> std::optional<gf::DecodePlan> {
    gf::DecodePlan part;
    for (unsigned c : signature.available) part.sources.push_back(static_cast<std::uint8_t>(c));
    for (unsigned c : signature.wanted) part.targets.push_back(static_cast<std::uint8_t>(c));
    part.matrix = gf::Matrix(signature.wanted.count(), signature.available.count());
    for (unsigned r = 0; r < part.matrix.rows(); ++r)
      for (unsigned c = 0; c < part.matrix.cols(); ++c)
        part.matrix(r, c) = encode_.matrix()(part.targets[r] - k(), part.sources[c]);
    return part;
  });
}

std::shared_ptr<const Plan> Code::checks(const gf::ChunkSet& of) noexcept {
  // Never the key of a plan, which wants existing chunks.
  return cached({of, {gf::max_chunks}}, [&] {
    const gf::ChunkSet determining = gf::independent_chunks(encode_.matrix(), of);
    return gf::make_decode_plan(encode_.matrix(), {determining, of - determining});
  });
}

}  // namespace ec::codec
