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

using Clock = std::chrono::steady_clock;

/// What a thread did in a sample.
struct ThreadCalls {
  std::size_t calls = 0;
  double per_second = 0;
};

}  // namespace

struct HostBench::Entry {
  HostEntrant who;
  std::unique_ptr<HostCoder> coder;
  bool verified = false;
  std::vector<CallTimes> calls{};  ///< of each thread, since they were last cleared
  std::vector<HostRound> rounds{};
};

HostBench::HostBench(const HostOptions& options,
                     std::span<const std::shared_ptr<kernels::cuda::Device>> devices)
    : options_(options),
      step_(options.member),
      devices_(devices.begin(), devices.end()),
      links_(step_.leads() ? make_link_rooms(devices, options.link_bytes) : LinkRooms{}),
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
  for (const auto& device : devices_)
    generated->function(device, kernels::cuda::ProgramForm::transform, 0, GeneratedProgram::Wish::now);
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

/// Each thread makes calls for that time, so that no thread works while another one is done.
HostRound HostBench::sample(const HostStripes& stripes, Entry& entry, double seconds,
                            std::size_t fewest_calls) {
  const unsigned threads = entry.who.threads;
  const std::chrono::duration<double> enough(seconds);
  std::vector<ThreadCalls> did(threads);
  entry.calls.resize(threads);
  step_.wait();
  const auto sample = crew_.run(threads, [&](unsigned t) {
    CallTimes& times = entry.calls[t];
    std::size_t calls = 0;
    const auto begun = Clock::now();
    auto last = begun;
    while (calls < fewest_calls || last - begun < enough) {
      entry.coder->run(stripes, stripes.at_turn(t, next_ + calls++));
      // One reading of the clock a call: the end of one is the beginning of the next.
      const auto now = Clock::now();
      times.add(static_cast<std::uint64_t>(std::chrono::nanoseconds(now - last).count()));
      last = now;
    }
    did[t] = {calls, static_cast<double>(calls) / std::chrono::duration<double>(last - begun).count()};
  });
  HostRound round;
  std::size_t calls = 0;
  std::size_t most = 0;
  for (const ThreadCalls& thread : did) {
    round.calls_per_second += thread.per_second;
    calls += thread.calls;
    most = std::max(most, thread.calls);
  }
  round.cpu_seconds = sample.cpu_seconds / static_cast<double>(calls);
  next_ += most;
  return round;
}

/// Warms everything up.
void HostBench::settle(const HostStripes& stripes, Entry& entry) {
  sample(stripes, entry, 2 * options_.sample_seconds);
  if (entry.who.backend == "auto" && options_.learn_seconds > 0)
    sample(stripes, entry, options_.learn_seconds, fewest_lessons);
}

void HostBench::run_rounds(const HostStripes& stripes, std::vector<Entry*> entries, Ceiling* ceiling) {
  for (Entry* entry : entries) entry->calls.clear();
  const auto begun = Clock::now();
  for (unsigned round = 0; round < options_.rounds; ++round) {
    const std::chrono::duration<double> taken = Clock::now() - begun;
    if (step_.agree(round >= fewest_rounds && taken.count() > options_.case_seconds)) return;
    if (ceiling != nullptr) ceiling->sample();
    // Each finds the caches as another one left them every time.
    std::shuffle(entries.begin(), entries.end(), std::mt19937(round));
    for (Entry* entry : entries) entry->rounds.push_back(sample(stripes, *entry, options_.sample_seconds));
  }
}

HostRow HostBench::row_of(const HostCase& c, const Entry& entry, const Ceiling* ceiling) const {
  HostRow row{.op = c.op,
              .k = c.k,
              .m = c.m,
              .chunk_bytes = c.chunk_bytes,
              .residence = std::string(kernels::name(c.residence)),
              .threads = entry.who.threads,
              .gpus = static_cast<unsigned>(devices_.size()),
              .backend = entry.who.backend,
              .verified = entry.verified,
              .judges_router = c.judges_router,
              .rounds = entry.rounds};
  if (!entry.verified) return row;
  for (const CallTimes& thread : entry.calls) row.calls.add(thread);
  if (ceiling != nullptr) row.ceiling_gbps = ceiling->source_gbps();
  fill_figures(row);
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
  if (options_.member.shared_fd >= 0 && sound.size() < entries.size())
    throw std::runtime_error(fmt::format("wrong bytes while {} {}+{} was measured", c.op, c.k, c.m));
  std::unique_ptr<Ceiling> own;
  if (c.fresh_ceiling && step_.leads())
    own = std::make_unique<Ceiling>(links_, c.residence == Residence::device, c.k, c.targets());
  const Ceiling* ceiling = own ? own.get() : step_.leads() ? &ceiling_of_mix(c) : nullptr;
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
