// Whether chunks agree: the chunks that follow from others are made anew, block by block, and compared, in
// one pass over all chunks; chunks in device memory are compared there.
//
// One chunk alone is wrong where the others agree without it. The first differences tell which chunk it can
// be: they are its error times its column of the checks, and no two columns of an MDS code with two checks or
// more are multiples of each other.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "gf/mds.hpp"
#include "kernels/transfer.hpp"
#include "plugin/library/engine.hpp"
#include "support/no_cancellation.hpp"

namespace ec::library {
namespace {

using kernels::Status;

/// The block of each chunk. Zen 4, chunks of 64 KiB and 1 MiB in pages of 4 KiB that no cache holds, to a
/// loop that reads them: 8+3 0.91 to 0.97, 10+4 0.75 to 0.86; without the prefetch 0.87 to 0.94 and 0.77 to
/// 0.80; with blocks of 2 and 4 KiB up to 0.2 less. To prefetch the sources too costs a quarter.
constexpr std::size_t host_block = 1024;
constexpr std::size_t line = 64;

/// The chunks to compare, and their places in a stripe of the caller.
struct Comparison {
  std::shared_ptr<const codec::Plan> plan;
  std::vector<std::uint8_t> sources, followers;  ///< places of plan->sources and plan->targets
};

/// The first place where some follower differs.
struct Difference {
  std::size_t stripe, byte;
  std::vector<std::uint8_t> sums;  ///< there, each follower XOR its right byte
};

/// Compares chunks in host memory, of `count` stripes from stripe `first` on, from byte `at` of each on. May
/// throw std::bad_alloc.
void find_on_host(const codec::Router& router, const Comparison& checks, const Stripes& stripes,
                  std::size_t first, std::size_t count, std::size_t at, std::optional<Difference>& found) {
  struct alignas(line) Line {
    std::uint8_t bytes[line];
  };
  const std::size_t bytes = stripes.form.bytes, width = stripes.form.sources;
  std::vector<kernels::Source> sources(checks.sources.size());
  std::vector<kernels::Target> made(checks.followers.size());
  std::vector<Line> lines(made.size() * host_block / line);
  for (std::size_t i = 0; i < made.size(); ++i)
    made[i] = {lines[i * host_block / line].bytes, kernels::Residence::pageable};
  kernels::Backend* backend = nullptr;
  for (std::size_t s = first; s < first + count; ++s) {
    const kernels::Source* const stripe = stripes.sources.data() + s * width;
    for (std::size_t from = at; from < bytes; from += host_block) {
      const std::size_t length = std::min(host_block, bytes - from);
      for (std::size_t i = 0; i < sources.size(); ++i)
        sources[i] = {stripe[checks.sources[i]].data + from, kernels::Residence::pageable};
      const kernels::Job job{&checks.plan->program, sources, made, length};
      // The sources are read as a whole, and the CPU prefetches them by itself.
      for (const auto place : checks.followers)
        for (std::size_t next = 0; next < length; next += line)
          __builtin_prefetch(stripe[place].data + from + next);
      if (backend == nullptr) backend = &router.cpu_backend(job);
      // A CPU fails only without memory for the tables of the matrix.
      if (backend->transform(job) != Status::ok) throw std::bad_alloc();
      std::size_t same = length;
      for (std::size_t i = 0; i < made.size(); ++i) {
        const std::uint8_t* const is = stripe[checks.followers[i]].data + from;
        if (std::memcmp(made[i].data, is, same) != 0)
          same = static_cast<std::size_t>(std::mismatch(is, is + same, made[i].data).first - is);
      }
      if (same == length) continue;
      auto& sums = found.emplace(Difference{s, from + same, {}}).sums;
      for (std::size_t i = 0; i < made.size(); ++i)
        sums.push_back(made[i].data[same] ^ stripe[checks.followers[i]].data[from + same]);
      return;
    }
  }
}

/// The checks as jobs to compare: the followers are targets, which no kernel writes.
struct DeviceComparison {
  /// May throw std::bad_alloc.
  DeviceComparison(const Comparison& checks, const Stripes& stripes, std::size_t first, std::size_t count) {
    for (std::size_t s = first; s < first + count; ++s) {
      const kernels::Source* const stripe = stripes.sources.data() + s * stripes.form.sources;
      for (const auto place : checks.sources) sources.push_back(stripe[place]);
      for (const auto place : checks.followers)
        targets.push_back({const_cast<std::uint8_t*>(stripe[place].data), stripe[place].residence});
    }
    jobs = jobs_of(checks.plan->program, sources, targets, count, stripes.form.bytes);
  }

  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
  std::vector<kernels::Job> jobs;
};

Status find_on_device(const codec::Router& router, const Comparison& checks, const Stripes& stripes,
                      std::size_t first, std::size_t count, std::optional<Difference>& found) {
  const support::NoCancellation whole;
  const DeviceComparison comparison(checks, stripes, first, count);
  unsigned long long at = kernels::no_difference;
  Status status = router.compare(comparison.jobs, &at, {});
  if (status != Status::ok || at == kernels::no_difference) return status;
  if (at / stripes.form.bytes >= count) return Status::fault;  // the device is wrong
  const std::size_t stripe = first + at / stripes.form.bytes, byte = at % stripes.form.bytes;
  // The bytes at the difference, as a stripe in host memory.
  std::vector<std::uint8_t> bytes(stripes.form.sources);
  std::vector<kernels::Source> copies;
  for (std::uint8_t& copy : bytes) {
    const auto& chunk = stripes.sources[stripe * bytes.size() + copies.size()];
    status = kernels::fetch({const_cast<std::uint8_t*>(chunk.data) + byte, chunk.residence, &copy, 1});
    if (status != Status::ok) return status;
    copies.push_back({&copy, kernels::Residence::pageable});
  }
  const Stripes there(verify_names, {1, 1, copies.size(), 0}, copies.data(), nullptr, false);
  find_on_host(router, checks, there, 0, 1, 0, found);
  if (!found) return Status::fault;
  found->stripe = stripe;
  found->byte = byte;
  return Status::ok;
}

/// Compares `count` stripes from stripe `first` on; stripes in host memory from byte `at` on.
Status find(const codec::Router& router, const Comparison& checks, const Stripes& stripes, std::size_t first,
            std::size_t count, std::size_t at, std::optional<Difference>& found) {
  if (stripes.form.bytes == 0 || count == 0 || checks.plan->targets.empty()) return Status::ok;
  if (stripes.on_device) return find_on_device(router, checks, stripes, first, count, found);
  find_on_host(router, checks, stripes, first, count, at, found);
  return Status::ok;
}

/// The checks of these chunks. Throws std::bad_alloc.
Comparison checks_of(const codec::Codec& codec, const gf::ChunkSet& chunks,
                     std::span<const unsigned> available) {
  Comparison checks{codec.code().checks(chunks), {}, {}};
  if (!checks.plan) throw std::bad_alloc();
  std::array<std::uint8_t, gf::max_chunks> place_of;
  for (std::size_t i = 0; i < available.size(); ++i) place_of[available[i]] = static_cast<std::uint8_t>(i);
  const auto place = [&](unsigned chunk) { return place_of[chunk]; };
  std::ranges::transform(checks.plan->sources, std::back_inserter(checks.sources), place);
  std::ranges::transform(checks.plan->targets, std::back_inserter(checks.followers), place);
  return checks;
}

[[noreturn]] void refuse_nothing_to_compare(std::size_t available) {
  refuse(Errc::too_few_chunks,
         "available has {} chunks, and none follows from the others: there is nothing to compare", available);
}

/// The only chunk that alone can make the sums: they are a multiple of its column.
std::optional<unsigned> suspect(const Comparison& checks, const std::vector<std::uint8_t>& sums) {
  const gf::Matrix& matrix = checks.plan->program.matrix();
  const unsigned sources = matrix.cols();
  // Behind the sources the followers, whose columns have a single one.
  const auto all = gf::single_errors(sums, sources + matrix.rows(), [&](unsigned r, unsigned c) {
    return c < sources ? matrix(r, c) : std::uint8_t{r == c - sources};
  });
  if (all.count() != 1) return std::nullopt;
  const unsigned only = *all.begin();
  return only < sources ? checks.plan->sources[only] : checks.plan->targets[only - sources];
}

}  // namespace

Status Engine::verify(std::span<const unsigned> available, const Stripes& stripes, Verdict& verdict,
                      bool refuse_nothing) const {
  verdict = {};
  const gf::ChunkSet all = gf::ChunkSet::of(available);
  const Comparison checks = checks_of(codec_, all, available);
  if (checks.plan->targets.empty() && refuse_nothing) refuse_nothing_to_compare(available.size());
  if (checks.plan->targets.empty() || stripes.form.bytes == 0 || stripes.form.stripes == 0) return Status::ok;
  if (stripes.on_device) need_device({});
  std::optional<Difference> found, other;
  Status status = find(codec_.router(), checks, stripes, 0, stripes.form.stripes, 0, found);
  if (status != Status::ok || !found) return status;
  verdict = {false, found->stripe, found->byte, std::nullopt};
  const auto chunk = suspect(checks, found->sums);
  if (!chunk) return Status::ok;
  const Comparison without = checks_of(codec_, all - gf::ChunkSet{*chunk}, available);
  status = find(codec_.router(), without, stripes, found->stripe, 1, found->byte, other);
  if (status == Status::ok && !other) verdict.chunk = chunk;
  return status;
}

Status Engine::verify_on(std::span<const unsigned> available, const Stripes& stripes,
                         std::uint64_t* difference, Stream stream) const {
  if (difference == nullptr) refuse("{} is null", "difference");
  if (reinterpret_cast<std::uintptr_t>(difference) % sizeof *difference != 0)
    refuse("difference={} must be aligned to {} bytes", fmt::ptr(difference), sizeof *difference);
  const Comparison checks = checks_of(codec_, gf::ChunkSet::of(available), available);
  if (checks.plan->targets.empty()) refuse_nothing_to_compare(available.size());
  if (stripes.form.bytes == 0 || stripes.form.stripes == 0) refuse("{}", "there is no byte to compare");
  need_device(stream);
  const DeviceComparison comparison(checks, stripes, 0, stripes.form.stripes);
  static_assert(no_difference == kernels::no_difference &&
                sizeof *difference == sizeof kernels::no_difference);
  return codec_.router().compare(comparison.jobs, reinterpret_cast<unsigned long long*>(difference), *stream);
}

Status Engine::checked_decode(const Decoding& decoding, std::span<const unsigned> available,
                              const Stripes& stripes) const {
  Verdict verdict;
  if (const Status status = verify(available, stripes, verdict, false); status != Status::ok) return status;
  if (!verdict.agree)
    refuse(Errc::chunks_disagree, "sources disagree, first in stripe {} at byte {}; {}", verdict.stripe,
           verdict.byte,
           verdict.chunk ? fmt::format("chunk {} alone is wrong", *verdict.chunk)
                         : "which chunk is wrong cannot be told");
  return decode(decoding, stripes, {});
}

}  // namespace ec::library
