#include "bench/host/host_measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "bench/common/stats.hpp"
#include "kernels/cuda/generate/generated_program.hpp"
#include "kernels/tallies.hpp"

namespace ec::bench {
namespace {

using kernels::Residence;
using kernels::cuda::GeneratedProgram;

/// Fewer have no median to speak of.
constexpr unsigned fewest_rounds = 3;
/// Of a ceiling that many cases share.
constexpr unsigned mix_samples = 7;
/// Of the stripes that a thread takes turns on.
constexpr std::size_t most_bytes_a_thread = std::size_t{512} << 20;
/// Of those of them that are checked.
constexpr std::size_t most_bytes_to_check = std::size_t{64} << 20;

unsigned most_threads(std::span<const HostCase> cases) {
  unsigned most = 1;
  for (const HostCase& c : cases)
    for (const auto& entrant : c.entrants) most = std::max(most, entrant.threads);
  return most;
}

std::size_t calls_for(double seconds, const HostSample& sample, std::size_t calls) {
  const double factor = std::clamp(1.2 * seconds / std::max(sample.seconds, 1e-9), 1.5, 10.0);
  return static_cast<std::size_t>(static_cast<double>(calls) * factor) + 1;
}

}  // namespace

struct HostBench::Entry {
  HostEntrant who;
  std::unique_ptr<HostCoder> coder;
  bool verified = false;
  std::size_t calls = 1;  ///< of each thread in a sample
  std::vector<double> call_seconds{};
  std::vector<double> cpu_seconds{};  ///< of a call
};

HostBench::HostBench(const HostOptions& options,
                     std::span<const std::shared_ptr<kernels::cuda::Device>> devices)
    : options_(options),
      links_(make_link_rooms(devices, options.link_bytes)),
      crew_(most_threads(options.cases)) {}

HostCase HostBench::fitting(HostCase c) {
  std::erase_if(c.entrants, [&](const HostEntrant& entrant) {
    const bool too_large = entrant.threads * c.stripe_bytes() > options_.largest_bytes;
    if (too_large)
      left_out_.push_back(fmt::format("{} {}+{}, chunks of {} bytes, {}: {} with {} threads needs {} MiB",
                                      c.op, c.k, c.m, c.chunk_bytes, kernels::name(c.residence),
                                      entrant.backend, entrant.threads,
                                      entrant.threads * c.stripe_bytes() >> 20));
    return too_large;
  });
  return c;
}

/// As many for one thread as for each of many, so that the stripes of a thread come from the same caches.
std::size_t HostBench::turns_of(const HostCase& c) const {
  const std::size_t bytes = std::min(most_bytes_a_thread, options_.largest_bytes / most_threads({&c, 1}));
  return std::clamp<std::size_t>(bytes / c.stripe_bytes(), 1, options_.turns);
}

/// Allocated once, as large as any case needs it: page-locking takes a third of a second a GiB.
const Arena& HostBench::arena(Residence residence) {
  auto& arena = arenas_[residence];
  if (arena) return *arena;
  std::size_t most = 0;
  for (HostCase c : options_.cases) {
    if (c.residence != residence) continue;
    std::erase_if(c.entrants, [&](const HostEntrant& entrant) {
      return entrant.threads * c.stripe_bytes() > options_.largest_bytes;
    });
    if (!c.entrants.empty()) most = std::max(most, turns_of(c) * most_threads({&c, 1}) * c.stripe_bytes());
  }
  arena = std::make_unique<Arena>(residence, most);
  return *arena;
}

const Twin& HostBench::twin(const HostCase& c, const kernels::Program& encode) {
  const std::tuple shape(c.k, c.m, c.chunk_bytes);
  if (!twin_ || twin_shape_ != shape) {
    twin_.reset();
    twin_ = std::make_unique<Twin>(encode, c.chunk_bytes);
    twin_shape_ = shape;
  }
  return *twin_;
}

/// Now, not by the device's own background thread in the middle of a measurement: a daemon has them too,
/// after its first hundreds of MiB.
void HostBench::generate_kernel(const HostCase& c, const kernels::Program& program) {
  codes_.push_back(codec::Code::get(c.technique, c.k, c.m));
  const auto* generated = GeneratedProgram::of(program);
  if (generated == nullptr || !kernels::cuda::worth_generating(program.matrix())) return;
  for (const auto& link : links_)
    generated->function(link->shared_device(), kernels::cuda::ProgramForm::transform, 0,
                        GeneratedProgram::Wish::now);
}

Ceiling& HostBench::ceiling_of_mix(const HostCase& c) {
  auto& ceiling = mixes_[{c.residence == Residence::device, c.k, c.targets()}];
  if (ceiling) return *ceiling;
  ceiling = std::make_unique<Ceiling>(links_, c.residence == Residence::device, c.k, c.targets());
  for (unsigned i = 0; i < mix_samples; ++i) ceiling->sample();
  note(c, *ceiling);
  return *ceiling;
}

void HostBench::note(const HostCase& c, const Ceiling& ceiling) {
  nlohmann::json entry{
      {"k", ceiling.k()}, {"targets", ceiling.targets()}, {"on_device", ceiling.on_device()}};
  if (c.fresh_ceiling) {
    entry["op"] = c.op;
    entry["chunk_bytes"] = c.chunk_bytes;
  }
  for (const auto& [way, gbps] : ceiling.ways()) entry["source_gbps"][way] = gbps;
  ceilings_.push_back(std::move(entry));
}

/// All of them, but for chunks so long that looking at their bytes would take longer than the measurement.
std::size_t HostBench::turns_to_check(const HostCase& c, const HostStripes& stripes) {
  return std::clamp<std::size_t>(most_bytes_to_check / c.stripe_bytes(), 1, stripes.turns());
}

bool HostBench::verify(const HostCase& c, const HostStripes& stripes, const Entry& entry) {
  const std::size_t turns = turns_to_check(c, stripes);
  stripes.spoil(entry.who.threads, turns);
  // All threads at once, as they will be timed.
  crew_.run(entry.who.threads, [&](unsigned t) {
    for (std::size_t turn = 0; turn < turns; ++turn) entry.coder->run(stripes, stripes.at_turn(t, turn));
  });
  return stripes.right(entry.who.threads, turns);
}

HostSample HostBench::sample(const HostStripes& stripes, const Entry& entry, std::size_t calls) {
  const unsigned threads = entry.who.threads;
  const std::size_t first = next_;
  const auto sample = crew_.run(threads, [&](unsigned t) {
    for (std::size_t i = 0; i < calls; ++i) entry.coder->run(stripes, stripes.at_turn(t, first + i));
  });
  next_ += calls;
  return sample;
}

/// Finds how many calls make a sample, which warms everything up.
void HostBench::settle(const HostStripes& stripes, Entry& entry) {
  HostSample taken = sample(stripes, entry, entry.calls);
  while (taken.seconds < options_.sample_seconds) {
    entry.calls = calls_for(options_.sample_seconds, taken, entry.calls);
    taken = sample(stripes, entry, entry.calls);
  }
  if (entry.who.backend != "auto" || options_.learn_seconds == 0) return;
  double seconds = 0;
  for (std::size_t calls = 0; seconds < options_.learn_seconds || calls < fewest_lessons;
       calls += entry.calls)
    seconds += sample(stripes, entry, entry.calls).seconds;
}

void HostBench::run_rounds(const HostStripes& stripes, std::vector<Entry*> entries, Ceiling* ceiling) {
  using Clock = std::chrono::steady_clock;
  const auto begun = Clock::now();
  for (unsigned round = 0; round < options_.rounds; ++round) {
    const std::chrono::duration<double> taken = Clock::now() - begun;
    if (round >= fewest_rounds && taken.count() > options_.case_seconds) return;
    if (ceiling != nullptr) ceiling->sample();
    // Each finds the caches as another one left them every time.
    std::shuffle(entries.begin(), entries.end(), std::mt19937(round));
    for (Entry* at : entries) {
      Entry& entry = *at;
      const auto s = sample(stripes, entry, entry.calls);
      const auto calls = static_cast<double>(entry.calls);
      entry.call_seconds.push_back(s.seconds / calls);
      entry.cpu_seconds.push_back(s.cpu_seconds / (calls * entry.who.threads));
    }
  }
}

HostRow HostBench::row_of(const HostCase& c, const Entry& entry, const Ceiling& ceiling) const {
  HostRow row{.op = c.op,
              .k = c.k,
              .m = c.m,
              .chunk_bytes = c.chunk_bytes,
              .residence = std::string(kernels::name(c.residence)),
              .threads = entry.who.threads,
              .gpus = static_cast<unsigned>(links_.size()),
              .backend = entry.who.backend,
              .verified = entry.verified};
  if (!entry.verified) return row;
  const double gb = 1e-9 * static_cast<double>(c.source_bytes());
  const double seconds = median(entry.call_seconds);
  row.source_gbps = gb * entry.who.threads / seconds;
  row.ceiling_gbps = ceiling.source_gbps();
  row.call_us = 1e6 * seconds;
  row.cpu_s_per_gb = median(entry.cpu_seconds) / gb;
  row.noise = noise_percent(entry.call_seconds);
  return row;
}

std::vector<HostRow> HostBench::measure(const HostCase& asked) {
  const HostCase c = fitting(asked);
  if (c.entrants.empty()) return {};
  const std::uint64_t latches = kernels::read(kernels::device_tallies().latches);
  std::vector<Entry> entries;
  for (const auto& who : c.entrants) entries.push_back({who, std::make_unique<HostCoder>(c, who.backend)});
  const HostCoder& any = *entries.front().coder;
  generate_kernel(c, any.program());
  const HostStripes stripes(c, most_threads({&c, 1}), turns_of(c), any.reads(), twin(c, any.encode_program()),
                            arena(c.residence));

  std::vector<Entry*> sound;
  for (Entry& entry : entries) {
    entry.verified = verify(c, stripes, entry);
    if (!entry.verified) continue;
    settle(stripes, entry);
    // Calls one after the other must not have left something else.
    entry.verified = stripes.right(entry.who.threads, turns_to_check(c, stripes));
    if (entry.verified) sound.push_back(&entry);
  }
  std::unique_ptr<Ceiling> own;
  if (c.fresh_ceiling)
    own = std::make_unique<Ceiling>(links_, c.residence == Residence::device, c.k, c.targets());
  const Ceiling& ceiling = own ? *own : ceiling_of_mix(c);
  std::vector<std::vector<std::uint64_t>> before;
  for (const Entry& entry : entries) before.push_back(entry.coder->calls());
  if (!sound.empty()) run_rounds(stripes, sound, own.get());
  if (own && !sound.empty()) note(c, *own);

  // A device that failed left its work to others.
  if (kernels::read(kernels::device_tallies().latches) != latches)
    throw std::runtime_error(
        fmt::format("a device failed while {} {}+{} with chunks of {} bytes was measured", c.op, c.k, c.m,
                    c.chunk_bytes));

  std::vector<HostRow> rows;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    rows.push_back(row_of(c, entries[i], ceiling));
    rows.back().ran = entries[i].coder->ran_since(before[i]);
  }
  set_isal_cpu(rows);
  return rows;
}

}  // namespace ec::bench
