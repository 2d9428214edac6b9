// Lines up back ends and the router on the stripes of a case.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <stdexcept>

#include "bench/common/stripes.hpp"
#include "bench/common/sweep.hpp"
#include "bench/subcommands.hpp"
#include "kernels/backends.hpp"
#ifdef EC_WITH_CUDA
#include "kernels/cuda/backend.hpp"
#endif

namespace ec::bench {
namespace {

using kernels::Residence;

std::vector<std::string> contestant_names() {
  std::vector<std::string> names;
  for (const auto* b : kernels::backends()) names.emplace_back(b->name());
  names.emplace_back("router");
  return names;
}

/// "cuda@pinned": who codes, and where the chunks lie; pageable if not said.
std::pair<std::string, Residence> parse_entrant(const std::string& text) {
  const auto at = text.find('@');
  const std::string coder = text.substr(0, at);
  const std::string place = at == std::string::npos ? "pageable" : text.substr(at + 1);
  if (coder == "router" || kernels::find_backend(coder) != nullptr)
    for (const auto r : {Residence::pageable, Residence::pinned, Residence::device})
      if (place == name(r)) return {coder, r};
  throw UsageError(
      fmt::format("--backend {}: must be one of {}, with @pageable, @pinned or @device behind it", text,
                  fmt::join(contestant_names(), ", ")));
}

/// The device comes up in the background otherwise, and says busy meanwhile.
void require_device() {
#ifdef EC_WITH_CUDA
  std::string why;
  if (!kernels::cuda::bring_up(&why)) throw std::runtime_error("no device: " + why);
#endif
}

std::vector<SweepContestant> line_up(const std::vector<std::string>& names, const Case& c) {
  static const codec::Router router(codec::BackendChoice::automatic, std::nullopt);
  const auto operation = make_operation(c.op, c.technique, c.k, c.m, c.erasures);
  const std::size_t bytes = Stripes::bytes_needed(operation, c.chunk_bytes, c.threads);
  std::map<Residence, std::shared_ptr<const Stripes>> stripes;
  std::vector<SweepContestant> list;
  for (const auto& name : names) {
    const auto [coder, residence] = parse_entrant(name);
    if (coder == "cuda") require_device();
    auto& placed = stripes[residence];
    if (!placed)
      placed = std::make_shared<const Stripes>(operation, c.chunk_bytes,
                                               std::make_shared<const Memory>(residence, bytes), c.threads);
    auto* backend = kernels::find_backend(coder);
    list.push_back({stripe_contestant(coder, c.threads, *placed,
                                      [backend, placed = placed](std::size_t s) {
                                        return backend != nullptr ? backend->transform(placed->job(s))
                                                                  : router.transform(placed->job(s));
                                      }),
                    std::string(kernels::name(residence))});
  }
  return list;
}

}  // namespace

int run_codec(const std::vector<std::string>& arguments) {
  return run_sweep(
      {.name = "codec",
       .contestants_option = "backend",
       .contestants_default = "isal,reference",
       .contestants_help = fmt::format("back ends: {}; @pinned or @device behind one for such memory",
                                       fmt::join(contestant_names(), ", ")),
       .ops = {"encode", "decode"},
       .baselines = {"isal"},
       .host_version = "none",
       .line_up = line_up},
      arguments);
}

}  // namespace ec::bench
