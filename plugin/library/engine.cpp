// Checks a call and hands its stripes to the router; makes sentences of the answers.
#include "plugin/library/engine.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "plugin/codec/settings/settings.hpp"
#include "plugin/library/refusal.hpp"
#include "plugin/library/regions.hpp"
#include "plugin/library/stripes.hpp"
#ifdef EC_WITH_CUDA
#include "kernels/cuda/backend.hpp"
#include "plugin/codec/settings/settings.hpp"
#endif

namespace ec::library {
namespace {

using kernels::Source;
using kernels::Status;
using kernels::Target;

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
      codec::current_validator().is_off("cuda")
          ? "it gave wrong bytes (see EC_CUDA_VALIDATE) and is not used again by this process"
          : why_no_device();
  return Error(Errc::device_fault, fmt::format("the device failed{}{}", why.empty() ? "" : ": ", why));
}

/// Checks the call. An error only for what needs a device and has none; throws what else is wrong.
Error admit(const Stripes& stripes, const Completion& completion) {
  check(stripes);
  if (!completion.waits) check_none_is_pageable(stripes);
  // The back end answers at once while the device comes up, which host memory does not mind.
  if (!completion.waits || any_on_device(stripes))
    if (const auto why = why_no_device(); !why.empty())
      return Error(
          Errc::no_device,
          fmt::format("{}, and no device is up: {}",
                      completion.waits ? "chunks are in device memory" : "work is for a stream", why));
  return {};
}

bool is_nothing(const Stripes& stripes) {
  return stripes.bytes == 0 || stripes.targets.empty() || stripes.count() == 0;
}

/// All stripes by one program; job_of(stripe) is the job of one.
template <class JobOf>
Error code_stripes(const codec::Router& router, codec::Operation operation, const Stripes& stripes,
                   const Completion& completion, JobOf&& job_of) {
  if (const Error error = admit(stripes, completion); error || is_nothing(stripes)) return error;
  if (completion.waits && stripes.count() == 1) return error_of(router.transform(job_of(0), operation));
  std::vector<kernels::Job> jobs;
  jobs.reserve(stripes.count());
  for (std::size_t stripe = 0; stripe < stripes.count(); ++stripe) jobs.push_back(job_of(stripe));
  return error_of(completion.waits ? router.transform_all(jobs, operation)
                                   : router.enqueue(jobs, completion.stream, operation));
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

gf::Technique technique_of(int technique) {
  switch (technique) {
    case static_cast<int>(Technique::reed_sol_van):
      return gf::Technique::reed_sol_van;
    case static_cast<int>(Technique::cauchy):
      return gf::Technique::cauchy;
  }
  refuse("technique={}; allowed are 0 (reed_sol_van), 1 (cauchy)", technique);
}

gf::ChunkSet set_of(std::span<const unsigned> chunks) {
  gf::ChunkSet set;
  for (const unsigned chunk : chunks) set.insert(chunk);
  return set;
}

}  // namespace

Result<std::shared_ptr<const Engine>> Engine::create(unsigned k, unsigned m, int technique) noexcept {
  return guarded([&]() -> Result<std::shared_ptr<const Engine>> {
    const gf::Technique matrix = technique_of(technique);
    const codec::NodeSettings& node = codec::node_settings();
    configure_device(node);
    const codec::Router router(node.backend.value_or(codec::BackendChoice::automatic), node.threshold_bytes,
                               node.costs.table, kernels::backends(), codec::stats(),
                               codec::validator(nullptr));
    return std::make_shared<const Engine>(matrix, k, m, router);
  });
}

bool Engine::keep(const std::shared_ptr<const codec::Plan>& plan) const {
  const std::lock_guard lock(kept_mutex_);
  if (kept_.size() < most_kept) kept_.insert(plan);
  return kept_.contains(plan);
}

Error Engine::encode(std::span<const Source> data, std::span<const Target> coding, std::size_t bytes,
                     Completion completion) const noexcept {
  return guarded([&] {
    const Stripes stripes{"data", data, k(), "coding", coding, m(), bytes};
    return code_stripes(codec_.router(), codec::Operation::encode, stripes, completion,
                        [&](std::size_t stripe) {
                          return kernels::Job{&codec_.encode_program(), stripes.sources_of(stripe),
                                              stripes.targets_of(stripe), bytes};
                        });
  });
}

Error Engine::decode(std::span<const unsigned> available, std::span<const Source> sources,
                     std::span<const unsigned> wanted, std::span<const Target> targets, std::size_t bytes,
                     Completion completion) const noexcept {
  return guarded([&] {
    const Positions source_at = positions("available", available, k() + m());
    const Positions target_at = positions("wanted", wanted, k() + m());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (source_at[wanted[i]])
        refuse("wanted[{}]={} is available[{}]; only chunks that are not can be wanted", i, wanted[i],
               *source_at[wanted[i]]);
    if (available.size() < k())
      refuse(Errc::too_few_chunks, "available has {} chunks; k={} are needed", available.size(), k());
    const auto plan = codec_.plan({set_of(available), set_of(wanted)});
    if (!plan) throw std::bad_alloc();
    const kernels::Program* program = &plan->program;
    // One that no code is compiled for: what it enqueues needs nothing of it afterwards.
    std::optional<kernels::Program> passing;
    if (!completion.waits && !keep(plan)) program = &passing.emplace(program->matrix(), false);
    const Stripes stripes{"sources", sources, available.size(), "targets", targets, wanted.size(), bytes};
    // What the plan reads and makes, in its order, stripe after stripe.
    Regions<Source> read;
    Regions<Target> made;
    const auto gather = [&] {
      read.reserve(stripes.count() * plan->sources.size());
      made.reserve(stripes.count() * plan->targets.size());
      for (std::size_t stripe = 0; stripe < stripes.count(); ++stripe) {
        for (const auto chunk : plan->sources) read.push_back(stripes.sources_of(stripe)[*source_at[chunk]]);
        for (const auto chunk : plan->targets) made.push_back(stripes.targets_of(stripe)[*target_at[chunk]]);
      }
    };
    return code_stripes(
        codec_.router(), codec::Operation::decode, stripes, completion, [&](std::size_t stripe) {
          if (stripe == 0) gather();
          const std::size_t from = plan->sources.size(), to = plan->targets.size();
          return kernels::Job{program, std::span<const Source>(read).subspan(stripe * from, from),
                              std::span<const Target>(made).subspan(stripe * to, to), bytes};
        });
  });
}

Error Engine::update(unsigned chunk, std::span<const Source> delta, std::span<const Target> coding,
                     std::size_t bytes) const noexcept {
  return guarded([&] {
    if (chunk >= k()) refuse("chunk={} must be a data chunk, 0 to {}", chunk, k() - 1);
    const Stripes stripes{"delta", delta, 1, "coding", coding, m(), bytes};
    if (const Error error = admit(stripes, {}); error || is_nothing(stripes)) return error;
    for (std::size_t stripe = 0; stripe < stripes.count(); ++stripe) {
      const Status status =
          codec_.update(chunk, stripes.sources_of(stripe)[0], stripes.targets_of(stripe), bytes);
      if (status != Status::ok) return error_of(status);
    }
    return Error();
  });
}

}  // namespace ec::library
