// Hands the stripes of a call to the router, and makes sentences of its answers.
#include "plugin/library/engine.hpp"

#include <algorithm>
#include <vector>

#include "plugin/codec/settings/settings.hpp"
#include "plugin/library/refusal.hpp"
#ifdef EC_WITH_CUDA
#include "kernels/cuda/backend.hpp"
#endif

namespace ec::library {
namespace {

using kernels::Status;

/// Only notes what is wanted, and says nothing on stderr: a library is silent. Threads that race note the
/// same; nobody waits, since a child of fork() could for ever.
void configure_device([[maybe_unused]] const codec::NodeSettings& node) {
#ifdef EC_WITH_CUDA
  static constinit std::atomic<bool> done{false};
  if (done.load(std::memory_order_acquire)) return;
  kernels::cuda::configure(node.device);
  done.store(true, std::memory_order_release);
#endif
}

/// Waits for the device where it is coming up. Empty if it is up, else the reason.
std::string why_no_device() {
#ifdef EC_WITH_CUDA
  std::string why;
  return kernels::cuda::bring_up(&why) ? std::string() : why;
#else
  return "this library was built without the GPU back end";
#endif
}

/// Refuses a call that is not done.
[[gnu::cold, gnu::noinline]] void refuse_for(Status status) {
  if (status == Status::busy)
    refuse(Errc::busy, "the device has no room for this call now: too many at once");
  if (status == Status::unsupported) refuse(Errc::no_device, "no back end codes this shape in device memory");
  if (status == Status::hung)
    refuse(Errc::device_hung, "the device stopped answering and may still write to the targets");
  const std::string why =
      codec::validator(nullptr).is_off("cuda")
          ? "it gave wrong bytes (see EC_CUDA_VALIDATE) and is not used again by this process"
          : why_no_device();
  refuse(Errc::device_fault, "the device failed{}{}", why.empty() ? "" : ": ", why);
}

void check(Status status) {
  if (status != Status::ok) refuse_for(status);
}

/// The back end answers at once while the device comes up, which host memory does not mind. Other memory
/// waits for it here.
[[gnu::noinline]] void wait_for_device(const Stream& stream) {
  if (const std::string why = why_no_device(); !why.empty())
    refuse(Errc::no_device, "{}, and no device is up: {}",
           stream ? "work is for a stream" : "chunks are in device memory", why);
}

void need_device(const Stripes& stripes, const Stream& stream) {
  if (stream || stripes.on_device) wait_for_device(stream);
}

codec::Router make_router() {
  const codec::NodeSettings& node = codec::node_settings();
  configure_device(node);
  return codec::Router(node.backend.value_or(codec::BackendChoice::automatic), node.threshold_bytes,
                       node.costs.table, kernels::backends(), codec::stats(), codec::validator(nullptr));
}

/// From each stripe of `each` chunks those that a plan names, in its order.
template <class Chunk>
[[gnu::noinline]] void choose(std::span<const std::uint8_t> chunks, const ChunkLists& lists,
                              const Chunk* from, std::size_t each, Chunks<Chunk>& chosen) {
  Chunk* const end = chosen.data() + chosen.view().size();
  for (Chunk* to = chosen.data(); to != end; from += each)
    for (const std::uint8_t chunk : chunks) *to++ = from[lists.place_of(chunk)];
}

}  // namespace

/// The numbers of a list as a set.
gf::ChunkSet ChunkLists::add(std::string_view name, std::span<const unsigned> chunks, unsigned chunk_count) {
  gf::ChunkSet set;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const unsigned chunk = chunks[i];
    if (chunk >= chunk_count)
      refuse("{}[{}]={}; chunks are numbered 0 to {}", name, i, chunk, chunk_count - 1);
    if (set.contains(chunk)) {
      const auto first = std::ranges::find(chunks, chunk) - chunks.begin();
      refuse("{}[{}]={} repeats {}[{}]", name, i, chunk, name, first);
    }
    if (signature_.available.contains(chunk))
      refuse("{}[{}]={} is available[{}]; only chunks that are not can be wanted", name, i, chunk,
             place_of(static_cast<std::uint8_t>(chunk)));
    set.insert(chunk);
    place_[chunk] = static_cast<std::uint8_t>(i);
  }
  return set;
}

ChunkLists::ChunkLists(std::span<const unsigned> available, std::span<const unsigned> wanted, unsigned k,
                       unsigned chunk_count) {
  signature_.available = add("available", available, chunk_count);
  signature_.wanted = add("wanted", wanted, chunk_count);
  if (available.size() < k)
    refuse(Errc::too_few_chunks, "available has {} chunks; k={} are needed", available.size(), k);
}

Engine::Engine(Technique technique, unsigned k, unsigned m)
    : technique_(technique),
      codec_(technique == Technique::cauchy ? gf::Technique::cauchy : gf::Technique::reed_sol_van, k, m,
             make_router()) {}

Engine::~Engine() {
  for (const auto& known : known_plans_) delete known.load(std::memory_order_acquire);
}

/// The plan for a signature; `held` keeps it unless the engine does. Small calls notice the locks and the
/// counts by which codes share their plans. So the first plan at each of a few places stays there.
const std::shared_ptr<const codec::Plan>& Engine::plan_for(
    const gf::ErasureSignature& signature, std::shared_ptr<const codec::Plan>& held) const {
  std::atomic<const KnownPlan*>& place = known_plans_[signature.hash() % known_plans_.size()];
  const KnownPlan* known = place.load(std::memory_order_acquire);
  if (known != nullptr && known->signature == signature) {
    codec::stats().happened(codec::Event::plan_found);
    return known->plan;
  }
  held = codec_.plan(signature);
  if (!held) throw std::bad_alloc();
  if (known == nullptr) {
    auto mine = std::make_unique<const KnownPlan>(KnownPlan{signature, held});
    if (place.compare_exchange_strong(known, mine.get(), std::memory_order_acq_rel)) mine.release();
  }
  return held;
}

void Engine::encode(const Stripes& stripes, const Stream& stream) const {
  code(codec::Operation::encode, codec_.encode_program(), stripes.sources.view(), stripes.targets.view(),
       stripes, stream);
}

void Engine::decode(const ChunkLists& lists, const Stripes& stripes, const Stream& stream) const {
  std::shared_ptr<const codec::Plan> held;
  const auto& shared = plan_for(lists.signature(), held);
  const codec::Plan& plan = *shared;
  const Form& form = stripes.form;
  Chunks<kernels::Source> sources(form.stripes * plan.sources.size());
  Chunks<kernels::Target> targets(form.stripes * plan.targets.size());
  choose(plan.sources, lists, stripes.sources.data(), form.sources, sources);
  choose(plan.targets, lists, stripes.targets.data(), form.targets, targets);
  const auto with = [&](const kernels::Program& program) {
    code(codec::Operation::decode, program, sources.view(), targets.view(), stripes, stream);
  };
  // One that no code is compiled for: what it enqueues needs nothing of it afterwards.
  if (stream && !keep(shared)) return with(kernels::Program(plan.program.matrix(), false));
  with(plan.program);
}

void Engine::check_data_chunk(unsigned chunk) const {
  if (chunk >= k()) refuse("chunk={} must be a data chunk, 0 to {}", chunk, k() - 1);
}

void Engine::update(unsigned chunk, const Stripes& stripes) const {
  need_device(stripes, {});
  const auto& [count, bytes, sources, targets] = stripes.form;
  if (bytes == 0) return;
  for (std::size_t stripe = 0; stripe < count; ++stripe)
    check(codec_.update(chunk, stripes.sources.data()[stripe],
                        stripes.targets.view().subspan(stripe * targets, targets), bytes));
}

/// All stripes by one program, whose chunks come stripe after stripe.
void Engine::code(codec::Operation operation, const kernels::Program& program,
                  std::span<const kernels::Source> sources, std::span<const kernels::Target> targets,
                  const Stripes& stripes, const Stream& stream) const {
  need_device(stripes, stream);
  const std::size_t count = stripes.form.stripes, bytes = stripes.form.bytes;
  if (bytes == 0 || targets.empty()) return;
  const codec::Router& router = codec_.router();
  if (!stream && count == 1)
    return check(router.transform({&program, sources, targets, bytes}, operation));
  std::vector<kernels::Job> jobs;
  jobs.reserve(count);
  for (std::size_t stripe = 0; stripe < count; ++stripe)
    jobs.push_back({&program, sources.subspan(stripe * program.sources(), program.sources()),
                    targets.subspan(stripe * program.targets(), program.targets()), bytes});
  check(stream ? router.enqueue(jobs, *stream, operation) : router.transform_all(jobs, operation));
}

/// Work on a stream may use what was compiled for a plan when the call is long over. So plans are kept as
/// long as the engine, the first `most_kept` of them; false for one more.
bool Engine::keep(const std::shared_ptr<const codec::Plan>& plan) const {
  const std::lock_guard lock(kept_mutex_);
  if (kept_.size() < most_kept) kept_.insert(plan);
  return kept_.contains(plan);
}

}  // namespace ec::library
