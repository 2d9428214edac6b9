#include "plugin/library/engine.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/container/static_vector.hpp>
#include <mutex>
#include <optional>

#include "plugin/codec/settings.hpp"
#include "plugin/library/refusal.hpp"
#include "plugin/library/stripes.hpp"
#ifdef EC_WITH_CUDA
#include "kernels/cuda/backend.hpp"
#endif

namespace ec::library {
namespace {

using kernels::Source;
using kernels::Status;
using kernels::Target;

/// Once in a process. Only notes what is wanted, and says nothing on stderr: a library is silent.
void configure_device([[maybe_unused]] const codec::NodeSettings& node) {
#ifdef EC_WITH_CUDA
  static std::once_flag once;
  std::call_once(once, [&] {
    kernels::cuda::Options options;
    options.device = node.device;
    options.deadline = node.deadline;
    options.retry_after = node.retry_after;
    options.staging_bytes = node.staging_bytes;
    kernels::cuda::configure(options);
  });
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

Error error_of(Status status, std::size_t stripe) {
  switch (status) {
    case Status::ok:
      return {};
    case Status::busy:
      return Error(Errc::busy,
                   fmt::format("stripe {}: the device has no room for this call now: too many at once, or "
                               "EC_CUDA_STAGING_BYTES is too small for its chunks in ordinary memory",
                               stripe));
    case Status::unsupported:
      return Error(Errc::no_device,
                   fmt::format("stripe {}: no back end codes this shape in device memory", stripe));
    case Status::hung:
      return Error(
          Errc::device_hung,
          fmt::format("stripe {}: the device stopped answering and may still write to the targets", stripe));
    case Status::fault:
      break;
  }
  const std::string why = why_no_device();
  return Error(Errc::device_fault,
               fmt::format("stripe {}: the device failed{}{}", stripe, why.empty() ? "" : ": ", why));
}

/// Checks the call, then calls code_stripe(sources, targets) for each stripe until one fails.
template <class CodeStripe>
Error code_stripes(const Stripes& stripes, CodeStripe&& code_stripe) {
  check(stripes);
  if (stripes.bytes == 0 || stripes.targets.empty()) return {};
  // The back end answers at once while the device comes up, which host memory does not mind.
  if (any_on_device(stripes))
    if (const auto why = why_no_device(); !why.empty())
      return Error(Errc::no_device, fmt::format("chunks are in device memory, and no device is up: {}", why));
  for (std::size_t stripe = 0; stripe < stripes.count(); ++stripe) {
    const Status status = code_stripe(stripes.sources_of(stripe), stripes.targets_of(stripe));
    if (status != Status::ok) return error_of(status, stripe);
  }
  return {};
}

/// Where in a list of chunk numbers each chunk stands.
using Positions = std::array<std::optional<std::uint8_t>, gf::max_chunks>;

Positions positions(std::string_view name, std::span<const unsigned> chunks, unsigned chunk_count) {
  Positions at;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const unsigned chunk = chunks[i];
    if (chunk >= chunk_count)
      throw Refusal(Errc::invalid_argument,
                    fmt::format("{}[{}]={}; chunks are numbered 0 to {}", name, i, chunk, chunk_count - 1));
    if (at[chunk])
      throw Refusal(Errc::invalid_argument,
                    fmt::format("{}[{}]={} repeats {}[{}]", name, i, chunk, name, *at[chunk]));
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
  throw Refusal(Errc::invalid_argument,
                fmt::format("technique={}; allowed are 0 (reed_sol_van), 1 (cauchy)", technique));
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
    const codec::Router router(node.backend.value_or(codec::BackendChoice::automatic), node.threshold_bytes);
    return std::make_shared<const Engine>(matrix, k, m, router);
  });
}

Error Engine::encode(std::span<const Source> data, std::span<const Target> coding,
                     std::size_t bytes) const noexcept {
  return guarded([&] {
    return code_stripes({"data", data, k(), "coding", coding, m(), bytes},
                        [&](auto sources, auto targets) { return codec_.encode(sources, targets, bytes); });
  });
}

Error Engine::decode(std::span<const unsigned> available, std::span<const Source> sources,
                     std::span<const unsigned> wanted, std::span<const Target> targets,
                     std::size_t bytes) const noexcept {
  return guarded([&] {
    const Positions source_at = positions("available", available, k() + m());
    const Positions target_at = positions("wanted", wanted, k() + m());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (source_at[wanted[i]])
        throw Refusal(Errc::invalid_argument,
                      fmt::format("wanted[{}]={} is available[{}]; only chunks that are not can be wanted", i,
                                  wanted[i], *source_at[wanted[i]]));
    if (available.size() < k())
      throw Refusal(Errc::too_few_chunks,
                    fmt::format("available has {} chunks; k={} are needed", available.size(), k()));
    const auto plan = codec_.plan({set_of(available), set_of(wanted)});
    if (!plan) throw std::bad_alloc();
    return code_stripes(
        {"sources", sources, available.size(), "targets", targets, wanted.size(), bytes},
        [&](auto stripe_sources, auto stripe_targets) {
          boost::container::static_vector<Source, gf::max_chunks> read;
          boost::container::static_vector<Target, gf::max_chunks> made;
          for (const auto chunk : plan->sources) read.push_back(stripe_sources[*source_at[chunk]]);
          for (const auto chunk : plan->targets) made.push_back(stripe_targets[*target_at[chunk]]);
          return codec_.apply(*plan, {read.data(), read.size()}, {made.data(), made.size()}, bytes);
        });
  });
}

Error Engine::update(unsigned chunk, std::span<const Source> delta, std::span<const Target> coding,
                     std::size_t bytes) const noexcept {
  return guarded([&] {
    if (chunk >= k())
      throw Refusal(Errc::invalid_argument,
                    fmt::format("chunk={} must be a data chunk, 0 to {}", chunk, k() - 1));
    return code_stripes({"delta", delta, 1, "coding", coding, m(), bytes}, [&](auto sources, auto targets) {
      return codec_.update(chunk, sources[0], targets, bytes);
    });
  });
}

}  // namespace ec::library
