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
using kernels::Status;

std::vector<std::string> contestant_names() {
  std::vector<std::string> names;
  for (const auto* b : kernels::backends()) names.emplace_back(b->name());
  names.emplace_back("router");
  return names;
}

/// "cuda@pinned": who codes, and where the chunks lie; pageable if not said.
struct Entrant {
  std::string coder;
  Residence residence = Residence::pageable;
};

Entrant parse_entrant(const std::string& text) {
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

/// Coder: something with transform(Job) and accumulate(Job).
template <class Coder>
SweepContestant contestant_of(const std::string& name, Coder& coder,
                              const std::shared_ptr<const Stripes>& stripes) {
  const bool accumulates = stripes->operation().verb == kernels::Verb::accumulate;
  return {{.name = name,
           .verified_against = name == "reference" ? "isal" : "reference",
           .threads = 1,
           .run =
               [name, &coder, stripes, accumulates](std::size_t stripe) {
                 const auto job = stripes->job(stripe);
                 const Status status = accumulates ? coder.accumulate(job) : coder.transform(job);
                 if (status != Status::ok)
                   throw std::runtime_error(fmt::format("{}: {}", name, kernels::name(status)));
               },
           .spoil = [stripes](std::size_t stripe) { stripes->spoil(stripe); },
           .right = [stripes](std::size_t stripe) { return stripes->right(stripe); },
           .accumulates = accumulates},
          std::string(kernels::name(stripes->residence()))};
}

std::vector<SweepContestant> line_up(const std::vector<Entrant>& entrants, const codec::Router& router,
                                     const Case& c) {
  const auto operation = make_operation(c.op, c.technique, c.k, c.m, c.erasures);
  const auto known = std::make_shared<const KnownStripe>(operation, c.chunk_bytes);
  const std::size_t bytes = Stripes::bytes_needed(operation, c.chunk_bytes, c.stripes);
  std::map<Residence, std::shared_ptr<const Stripes>> stripes;
  std::vector<SweepContestant> list;
  for (const auto& [coder, residence] : entrants) {
    auto& placed = stripes[residence];
    if (!placed)
      placed = std::make_shared<const Stripes>(operation, known,
                                               std::make_shared<const Memory>(residence, bytes), c.stripes);
    list.push_back(coder == "router" ? contestant_of(coder, router, placed)
                                     : contestant_of(coder, *kernels::find_backend(coder), placed));
    list.back().contestant.threads = c.threads;
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
       .ops = {"encode", "decode", "update"},
       .baseline = "isal",
       .host_version = "none",
       .prepare =
           [](const std::vector<std::string>& names) {
             std::vector<Entrant> entrants;
             for (const auto& name : names) {
               entrants.push_back(parse_entrant(name));
               if (entrants.back().coder == "cuda") require_device();
             }
             auto router =
                 std::make_shared<const codec::Router>(codec::BackendChoice::automatic, std::nullopt);
             return [entrants, router](const Case& c) { return line_up(entrants, *router, c); };
           }},
      arguments);
}

}  // namespace ec::bench
