// Lines the codec up on known stripes, and sets what it does beside the ceilings.
#include "bench/host/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "kernels/backends.hpp"
#include "kernels/cuda/generate/generated_program.hpp"
#include "kernels/device_stats.hpp"
#include "plugin/codec/settings/settings.hpp"

namespace ec::bench {
namespace {

using kernels::Residence;
using kernels::cuda::GeneratedProgram;

/// Of the stripes that a thread takes turns on.
constexpr std::size_t most_bytes_a_thread = std::size_t{512} << 20;
/// Of those of them that are checked: chunks may be so long that looking at them would take longer than
/// measuring.
constexpr std::size_t most_bytes_to_check = std::size_t{64} << 20;

codec::Router router_for(const std::string& backend, codec::Stats& stats) {
  const auto choice = codec::parse_backend_choice(backend == "cuda" ? "gpu" : backend);
  if (!choice) throw std::logic_error("no such back end: " + backend);
  const auto& node = codec::node_settings();
  return {*choice, node.threshold_bytes, node.costs.table, kernels::backends(), stats};
}

unsigned most_threads(std::span<const HostCase> cases) {
  unsigned most = 1;
  for (const HostCase& c : cases) most = std::max(most, c.most_threads());
  return most;
}

std::string words(const HostCase& c) {
  return fmt::format("{} {}+{}, chunks of {} bytes, {}", c.op, c.k, c.m, c.chunk_bytes,
                     kernels::name(c.residence));
}

}  // namespace

CodecCalls::CodecCalls(const HostCase& c, const std::string& backend)
    : backend_(backend),
      stats_(std::make_unique<codec::Stats>()),
      codec_(c.technique, c.k, c.m, router_for(backend, *stats_)) {}

void CodecCalls::run(const Stripes& stripes, std::size_t stripe) const {
  const auto sources = stripes.sources(stripe);
  const auto targets = stripes.targets(stripe);
  const auto& plan = stripes.operation().plan;
  const auto status = plan ? codec_.apply(*plan, sources, targets, stripes.chunk_bytes())
                           : codec_.encode(sources, targets, stripes.chunk_bytes());
  if (status != kernels::Status::ok)
    throw std::runtime_error(fmt::format("{}: {}", backend_, kernels::name(status)));
}

std::vector<std::uint64_t> CodecCalls::counts() const {
  std::vector<std::uint64_t> counts;
  for (std::size_t i = 0; i < kernels::backends().size(); ++i) counts.push_back(stats_->read(i).calls);
  return counts;
}

std::vector<RanCalls> CodecCalls::ran_since(const std::vector<std::uint64_t>& before) const {
  std::vector<RanCalls> ran;
  const auto after = counts();
  for (std::size_t i = 0; i < after.size(); ++i)
    if (after[i] > before[i])
      ran.push_back({std::string(kernels::backends()[i]->name()), after[i] - before[i]});
  std::ranges::stable_sort(ran, std::greater{}, &RanCalls::calls);
  return ran;
}

HostBench::HostBench(const HostOptions& options, std::span<const std::shared_ptr<Device>> devices)
    : options_(options),
      step_(options.member),
      devices_(devices.begin(), devices.end()),
      links_(step_.leads() ? make_links(devices, options.link_bytes) : Links{}),
      workers_(most_threads(options.cases)) {}

HostCase HostBench::fitting(HostCase c) {
  std::erase_if(c.entrants, [&](const HostEntrant& entrant) {
    if (fits(c, entrant)) return false;
    left_out_.push_back(fmt::format("{}: {} with {} threads needs {} MiB", words(c), entrant.backend,
                                    entrant.threads, entrant.threads * c.stripe_bytes() >> 20));
    return true;
  });
  return c;
}

/// As many for one thread as for each of many, so that the stripes of a thread come from the same caches.
std::size_t HostBench::turns_of(const HostCase& c) const {
  const std::size_t bytes = std::min(most_bytes_a_thread, options_.largest_bytes / c.most_threads());
  return std::clamp<std::size_t>(bytes / c.stripe_bytes(), 1, options_.turns);
}

/// Allocated once, as large as any case needs it: page-locking takes a third of a second a GiB.
std::shared_ptr<const Memory> HostBench::memory(Residence residence) {
  auto& memory = memories_[residence];
  if (memory) return memory;
  std::size_t most = 0;
  for (HostCase c : options_.cases) {
    std::erase_if(c.entrants, [&](const HostEntrant& entrant) { return !fits(c, entrant); });
    if (c.residence == residence && !c.entrants.empty())
      most = std::max(most, turns_of(c) * c.most_threads() * c.stripe_bytes());
  }
  memory = std::make_shared<const Memory>(residence, most);
  return memory;
}

std::shared_ptr<const KnownStripe> HostBench::known_stripe(const HostCase& c, const Operation& operation) {
  const std::tuple shape(c.k, c.m, c.chunk_bytes);
  if (!known_ || known_shape_ != shape) {
    known_.reset();
    known_ = std::make_shared<const KnownStripe>(operation, c.chunk_bytes);
    known_shape_ = shape;
  }
  return known_;
}

/// Now, not by the device's own background thread in the middle of a measurement: a daemon has them too,
/// after its first hundreds of MiB.
void HostBench::generate_kernel(const Operation& operation) {
  operations_.push_back(operation);
  const auto* generated = GeneratedProgram::of(*operation.program);
  if (generated == nullptr || !kernels::cuda::worth_generating(operation.program->matrix())) return;
  for (const auto& device : devices_)
    generated->function(device, kernels::cuda::ProgramForm::transform, 0, GeneratedProgram::Wish::now);
}

void HostBench::note(const HostCase& c, const Ceiling& ceiling) {
  nlohmann::json entry{{"op", c.op},
                       {"chunk_bytes", c.chunk_bytes},
                       {"k", c.k},
                       {"targets", c.targets()},
                       {"on_device", c.residence == Residence::device}};
  for (const auto& [way, gbps] : ceiling.ways()) entry["source_gbps"][way] = gbps;
  ceilings_.push_back(std::move(entry));
}

std::vector<HostRow> HostBench::measure(const HostCase& asked) {
  const HostCase c = fitting(asked);
  if (c.entrants.empty()) return {};
  const std::uint64_t latches = kernels::read(kernels::device_stats().latches);
  const Operation operation = make_operation(c.op, c.technique, c.k, c.m, c.targets());
  generate_kernel(operation);
  const StripeOrder order{c.most_threads(), turns_of(c), most_bytes_to_check / c.stripe_bytes()};
  const Stripes stripes(operation, known_stripe(c, operation), memory(c.residence), order.stripes());
  std::vector<std::unique_ptr<CodecCalls>> calls;
  std::vector<Contestant> contestants;
  for (const auto& [backend, threads] : c.entrants) {
    const CodecCalls& codec = *calls.emplace_back(std::make_unique<CodecCalls>(c, backend));
    contestants.push_back({.name = backend,
                           .verified_against = "reference",
                           .threads = threads,
                           .run = [&](std::size_t stripe) { codec.run(stripes, stripe); },
                           .spoil = [&](std::size_t stripe) { stripes.spoil(stripe); },
                           .right = [&](std::size_t stripe) { return stripes.right(stripe); }});
  }
  std::unique_ptr<Ceiling> ceiling;
  if (step_.leads())
    ceiling = std::make_unique<Ceiling>(links_, c.residence == Residence::device, c.k, c.targets());
  std::vector<std::vector<std::uint64_t>> before;
  const auto results = bench::measure(workers_, contestants, order,
                                      {.rounds = options_.rounds,
                                       .sample_seconds = options_.sample_seconds,
                                       .warm_seconds = options_.warm_seconds,
                                       .case_seconds = options_.case_seconds,
                                       .each_call = true,
                                       .before_sample = [&] { step_.wait(); },
                                       .before_round =
                                           [&] {
                                             if (before.empty())
                                               for (const auto& each : calls)
                                                 before.push_back(each->counts());
                                             if (ceiling) ceiling->sample();
                                           },
                                       .agree = [&](bool mine) { return step_.agree(mine); }});
  // A device that failed left its work to others.
  if (kernels::read(kernels::device_stats().latches) != latches)
    throw std::runtime_error(fmt::format("a device failed while {} was measured", words(c)));
  if (ceiling && !before.empty()) note(c, *ceiling);

  std::vector<HostRow> rows;
  for (std::size_t i = 0; i < results.size(); ++i) {
    HostRow& row = rows.emplace_back(HostRow{.op = c.op,
                                             .k = c.k,
                                             .m = c.m,
                                             .chunk_bytes = c.chunk_bytes,
                                             .residence = std::string(kernels::name(c.residence)),
                                             .threads = c.entrants[i].threads,
                                             .gpus = static_cast<unsigned>(devices_.size()),
                                             .backend = c.entrants[i].backend,
                                             .verified = results[i].verified,
                                             .judges_router = c.judges_router,
                                             .samples = results[i].samples,
                                             .calls = results[i].calls});
    if (!row.verified && step_.is_shared())
      throw std::runtime_error(fmt::format("{} made wrong bytes: {}", row.backend, words(c)));
    if (!row.verified) continue;
    row.ran = calls[i]->ran_since(before[i]);
    if (ceiling) row.ceiling_gbps = ceiling->source_gbps();
    fill_figures(row);
  }
  set_isal_cpu(rows);
  return rows;
}

}  // namespace ec::bench
