// The C++ interface: checks a call, hands its stripes to the router, makes sentences of the answers.
#include "ec/codec.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "plugin/codec/codec.hpp"
#include "plugin/codec/settings/settings.hpp"
#include "plugin/library/refusal.hpp"
#include "plugin/library/stripes.hpp"
#ifdef EC_WITH_CUDA
#include "kernels/cuda/backend.hpp"
#endif

namespace ec {
namespace library {

/// What the copies of one ec::Codec share.
class Engine {
 public:
  Engine(Technique technique_, unsigned k, unsigned m, codec::Router router)
      : technique(technique_),
        codec(technique == Technique::cauchy ? gf::Technique::cauchy : gf::Technique::reed_sol_van, k, m,
              router) {}

  /// Work on a stream may use what was compiled for a plan when the call is long over. So plans are kept as
  /// long as the engine, the first `most_kept` of them; false for one more.
  bool keep(const std::shared_ptr<const codec::Plan>& plan) const {
    const std::lock_guard lock(kept_mutex_);
    if (kept_.size() < most_kept) kept_.insert(plan);
    return kept_.contains(plan);
  }

  const Technique technique;
  const codec::Codec codec;

 private:
  static constexpr std::size_t most_kept = 256;

  mutable std::mutex kept_mutex_;
  mutable std::set<std::shared_ptr<const codec::Plan>> kept_;
};

namespace {

using kernels::Status;

/// Where a call only enqueues its work, the stream (null is one too); where it waits for its result, none.
using Stream = std::optional<CUstream_st*>;

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

Error error_of(Status status) {
  switch (status) {
    case Status::ok:
      return {};
    case Status::busy:
      return Error(Errc::busy, "the device has no room for this call now: too many at once");
    case Status::unsupported:
      return Error(Errc::no_device, "no back end codes this shape in device memory");
    case Status::hung:
      return Error(Errc::device_hung, "the device stopped answering and may still write to the targets");
    case Status::fault:
      break;
  }
  const std::string why =
      codec::validator(nullptr).is_off("cuda")
          ? "it gave wrong bytes (see EC_CUDA_VALIDATE) and is not used again by this process"
          : why_no_device();
  return Error(Errc::device_fault, fmt::format("the device failed{}{}", why.empty() ? "" : ": ", why));
}

/// The back end answers at once while the device comes up, which host memory does not mind. Other memory
/// waits for it here.
Error need_device(const Stripes& stripes, const Stream& stream) {
  if (!stream && !stripes.on_device) return {};
  const std::string why = why_no_device();
  if (why.empty()) return {};
  return Error(Errc::no_device,
               fmt::format("{}, and no device is up: {}",
                           stream ? "work is for a stream" : "chunks are in device memory", why));
}

/// All stripes by one program, whose chunks come stripe after stripe.
Error code(const codec::Router& router, codec::Operation operation, const kernels::Program& program,
           std::span<const kernels::Source> sources, std::span<const kernels::Target> targets,
           const Stripes& stripes, const Stream& stream) {
  if (const Error error = need_device(stripes, stream)) return error;
  if (stripes.bytes == 0 || stripes.count == 0 || targets.empty()) return {};
  const auto job = [&](std::size_t stripe) {
    return kernels::Job{&program, sources.subspan(stripe * program.sources(), program.sources()),
                        targets.subspan(stripe * program.targets(), program.targets()), stripes.bytes};
  };
  if (!stream && stripes.count == 1) return error_of(router.transform(job(0), operation));
  std::vector<kernels::Job> jobs;
  jobs.reserve(stripes.count);
  for (std::size_t stripe = 0; stripe < stripes.count; ++stripe) jobs.push_back(job(stripe));
  return error_of(stream ? router.enqueue(jobs, *stream, operation) : router.transform_all(jobs, operation));
}

Error encode(const Engine& engine, std::span<const Source> data, std::span<const Target> coding,
             const Stream& stream) noexcept {
  return guarded([&] {
    const codec::Codec& codec = engine.codec;
    const Stripes stripes({"data", data, codec.k()}, {"coding", coding, codec.m()}, stream.has_value());
    return code(codec.router(), codec::Operation::encode, codec.encode_program(), view(stripes.sources),
                view(stripes.targets), stripes, stream);
  });
}

/// Where in a list of chunk numbers each chunk stands.
using Positions = std::array<std::optional<std::uint8_t>, gf::max_chunks>;

Positions positions(std::string_view name, std::span<const unsigned> chunks, unsigned chunk_count) {
  Positions at;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const unsigned chunk = chunks[i];
    if (chunk >= chunk_count)
      refuse("{}[{}]={}; chunks are numbered 0 to {}", name, i, chunk, chunk_count - 1);
    if (at[chunk]) refuse("{}[{}]={} repeats {}[{}]", name, i, chunk, name, *at[chunk]);
    at[chunk] = static_cast<std::uint8_t>(i);
  }
  return at;
}

gf::ChunkSet set_of(std::span<const unsigned> chunks) {
  gf::ChunkSet set;
  for (const unsigned chunk : chunks) set.insert(chunk);
  return set;
}

Error decode(const Engine& engine, std::span<const unsigned> available, std::span<const Source> sources,
             std::span<const unsigned> wanted, std::span<const Target> targets,
             const Stream& stream) noexcept {
  return guarded([&] {
    const codec::Codec& codec = engine.codec;
    const Positions source_at = positions("available", available, codec.k() + codec.m());
    const Positions target_at = positions("wanted", wanted, codec.k() + codec.m());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (source_at[wanted[i]])
        refuse("wanted[{}]={} is available[{}]; only chunks that are not can be wanted", i, wanted[i],
               *source_at[wanted[i]]);
    if (available.size() < codec.k())
      refuse(Errc::too_few_chunks, "available has {} chunks; k={} are needed", available.size(), codec.k());
    const Stripes stripes({"sources", sources, available.size()}, {"targets", targets, wanted.size()},
                          stream.has_value());
    const auto plan = codec.plan({set_of(available), set_of(wanted)});
    if (!plan) throw std::bad_alloc();
    const kernels::Program* program = &plan->program;
    // One that no code is compiled for: what it enqueues needs nothing of it afterwards.
    std::optional<kernels::Program> passing;
    if (stream && !engine.keep(plan)) program = &passing.emplace(program->matrix(), false);
    // What the plan reads and makes, in its order.
    Chunks<kernels::Source> read;
    Chunks<kernels::Target> made;
    for (std::size_t stripe = 0; stripe < stripes.count; ++stripe) {
      for (const auto chunk : plan->sources)
        read.push_back(stripes.sources[stripe * available.size() + *source_at[chunk]]);
      for (const auto chunk : plan->targets)
        made.push_back(stripes.targets[stripe * wanted.size() + *target_at[chunk]]);
    }
    return code(codec.router(), codec::Operation::decode, *program, view(read), view(made), stripes, stream);
  });
}

}  // namespace
}  // namespace library

Result<Codec> Codec::create(unsigned k, unsigned m, Technique technique) noexcept {
  return library::guarded([&]() -> Result<Codec> {
    if (technique > Technique::cauchy) library::refuse_technique(static_cast<int>(technique));
    const codec::NodeSettings& node = codec::node_settings();
    library::configure_device(node);
    const codec::Router router(node.backend.value_or(codec::BackendChoice::automatic), node.threshold_bytes,
                               node.costs.table, kernels::backends(), codec::stats(),
                               codec::validator(nullptr));
    return Codec(std::make_shared<const library::Engine>(technique, k, m, router));
  });
}

unsigned Codec::k() const noexcept { return engine_->codec.k(); }
unsigned Codec::m() const noexcept { return engine_->codec.m(); }
Technique Codec::technique() const noexcept { return engine_->technique; }

Error Codec::encode(std::span<const Source> data, std::span<const Target> coding) const noexcept {
  return library::encode(*engine_, data, coding, {});
}

Error Codec::encode_async(std::span<const Source> data, std::span<const Target> coding,
                          CUstream_st* stream) const noexcept {
  return library::encode(*engine_, data, coding, stream);
}

Error Codec::decode(std::span<const unsigned> available, std::span<const Source> sources,
                    std::span<const unsigned> wanted, std::span<const Target> targets) const noexcept {
  return library::decode(*engine_, available, sources, wanted, targets, {});
}

Error Codec::decode_async(std::span<const unsigned> available, std::span<const Source> sources,
                          std::span<const unsigned> wanted, std::span<const Target> targets,
                          CUstream_st* stream) const noexcept {
  return library::decode(*engine_, available, sources, wanted, targets, stream);
}

Error Codec::update(unsigned chunk, std::span<const Source> delta,
                    std::span<const Target> coding) const noexcept {
  return library::guarded([&] {
    if (chunk >= k()) library::refuse("chunk={} must be a data chunk, 0 to {}", chunk, k() - 1);
    const library::Stripes stripes({"delta", delta, 1}, {"coding", coding, m()}, false);
    if (const Error error = library::need_device(stripes, {}); error || stripes.bytes == 0) return error;
    for (std::size_t stripe = 0; stripe < stripes.count; ++stripe) {
      const auto of_stripe = library::view(stripes.targets).subspan(stripe * m(), m());
      const auto status = engine_->codec.update(chunk, stripes.sources[stripe], of_stripe, stripes.bytes);
      if (status != kernels::Status::ok) return library::error_of(status);
    }
    return Error();
  });
}

const char* version() noexcept { return ECCODER_VERSION; }

}  // namespace ec
