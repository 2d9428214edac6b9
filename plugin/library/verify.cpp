// Whether chunks agree: the sums that are zero where they do, made block by block in one pass over the
// chunks, by the CPU; chunks in device memory are compared there.
//
// One chunk alone is wrong where the others agree without it. The first sums that are not zero say which one
// that can be: they are its error times its column of the checks, and no two columns of an MDS code with two
// checks or more are multiples of each other.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "gf/gf256.hpp"
#include "kernels/transfer.hpp"
#include "plugin/library/engine.hpp"

namespace ec::library {
namespace {

using kernels::Status;

/// Of each chunk. On a Zen 5, chunks of 64 KiB that no cache holds: 8+3 0.72 and 10+4 0.76 of the speed of a
/// loop that reads them; blocks of 1 KiB and of 256 bytes are slower.
constexpr std::size_t host_block = 512;

struct alignas(64) Line {
  std::array<std::uint64_t, 8> words;
};
constexpr std::size_t line = sizeof(Line);

/// The place of the first byte that is not zero, or `lines` lines; what is behind the bytes is zero.
std::size_t first_not_zero(const Line* from, std::size_t lines) {
  // Of 16 bytes: a longer vector goes over the stack where code is not built for AVX-512.
  using Words [[gnu::vector_size(16)]] = std::uint64_t;
  const auto* words = reinterpret_cast<const Words*>(from);
  Words any{}, odd{};
  for (std::size_t i = 0; i < lines * (line / sizeof(Words)); i += 2) {
    any |= words[i];
    odd |= words[i + 1];
  }
  any |= odd;
  if ((any[0] | any[1]) == 0) return lines * line;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(from);
  return static_cast<std::size_t>(std::find_if(bytes, bytes + lines * line, [](auto b) { return b != 0; }) -
                                  bytes);
}

/// Checks, and where in a stripe of the caller each chunk stands that they read.
struct Checks {
  std::shared_ptr<const codec::Plan> plan;
  std::vector<std::uint8_t> places;
  const gf::Matrix& matrix() const { return plan->program.matrix(); }
};

/// Where some check is not zero first.
struct Difference {
  std::size_t stripe, byte;
  std::vector<std::uint8_t> sums;  ///< there, of each check
};

/// Checks chunks in host memory.
class HostComparison {
 public:
  /// May throw std::bad_alloc.
  HostComparison(const codec::Router& router, const Checks& checks)
      : router_(router), checks_(checks), sources_(checks.places.size()), sums_(checks.matrix().rows()) {
    for (std::size_t i = 0; i < sums_.size(); ++i)
      sums_[i] = {reinterpret_cast<std::uint8_t*>(row(i)), kernels::Residence::pageable};
  }

  /// From byte `at` on.
  Status find(std::span<const kernels::Source> stripe, std::size_t at, std::size_t bytes,
              std::optional<Difference>& found) {
    for (; at < bytes; at += host_block) {
      const std::size_t length = std::min(host_block, bytes - at);
      if (const Status status = sum(stripe, at, length); status != Status::ok) return status;
      const std::size_t lines = (length + line - 1) / line;
      std::size_t first = lines * line;
      for (std::size_t i = 0; i < sums_.size(); ++i) first = std::min(first, first_not_zero(row(i), lines));
      if (first == lines * line) continue;
      auto& difference = found.emplace(Difference{0, at + first, {}});
      for (const kernels::Target& sum : sums_) difference.sums.push_back(sum.data[first]);
      break;
    }
    return Status::ok;
  }

 private:
  Line* row(std::size_t i) { return lines_.data() + i * (host_block / line); }

  /// The sums of that block, and zeros behind them to the end of a line.
  Status sum(std::span<const kernels::Source> stripe, std::size_t at, std::size_t length) {
    for (std::size_t i = 0; i < sources_.size(); ++i)
      sources_[i] = {stripe[checks_.places[i]].data + at, kernels::Residence::pageable};
    for (std::size_t i = 0; i < sums_.size() && length % line != 0; ++i) row(i)[length / line] = {};
    const kernels::Job job{&checks_.plan->program, sources_, sums_, length};
    // The next block comes from memory while this one is summed up.
    for (const kernels::Source& source : sources_)
      for (std::size_t next = length; next < 2 * length; next += line) __builtin_prefetch(source.data + next);
    if (backend_ == nullptr) backend_ = &router_.cpu_backend(job);
    return backend_->transform(job);
  }

  const codec::Router& router_;
  const Checks& checks_;
  std::vector<kernels::Source> sources_;
  std::vector<kernels::Target> sums_;  ///< the rows of lines_
  std::vector<Line> lines_{sums_.size() * host_block / line};
  kernels::Backend* backend_ = nullptr;
};

/// The checks as jobs to compare: the chunks that follow from the others are targets, which nobody writes.
class DeviceComparison {
 public:
  /// May throw std::bad_alloc.
  DeviceComparison(const Checks& checks, const Stripes& stripes, std::size_t first, std::size_t count)
      : program_(solved(checks), false) {
    const std::size_t width = stripes.form.sources, bytes = stripes.form.bytes;
    for (std::size_t s = first; s < first + count; ++s) {
      const kernels::Source* const stripe = stripes.sources.data() + s * width;
      for (const std::uint8_t place : read_) sources_.push_back(stripe[place]);
      for (const std::uint8_t place : followers_)
        targets_.push_back({const_cast<std::uint8_t*>(stripe[place].data), stripe[place].residence});
    }
    for (std::size_t s = 0; s < count; ++s)
      jobs_.push_back({&program_, std::span(sources_).subspan(s * read_.size(), read_.size()),
                       std::span(targets_).subspan(s * followers_.size(), followers_.size()), bytes});
  }

  std::span<const kernels::Job> jobs() const { return jobs_; }

 private:
  gf::Matrix solved(const Checks& checks) {
    const codec::Plan& plan = *checks.plan;
    const unsigned rows = checks.matrix().rows();
    gf::Matrix matrix(rows, std::max(checks.matrix().cols() - rows, 1u));
    followers_.resize(rows);
    for (unsigned c = 0; c < checks.matrix().cols(); ++c) {
      const auto of = std::ranges::find(plan.targets, plan.sources[c]);
      if (of != plan.targets.end()) {
        followers_[static_cast<std::size_t>(of - plan.targets.begin())] = checks.places[c];
        continue;
      }
      const auto column = static_cast<unsigned>(read_.size());
      for (unsigned r = 0; r < rows; ++r) matrix(r, column) = checks.matrix()(r, c);
      read_.push_back(checks.places[c]);
    }
    // Chunks that are zero whatever the others are: a kernel reads one at least.
    if (read_.empty()) read_.push_back(checks.places.front());
    return matrix;
  }

  std::vector<std::uint8_t> read_, followers_;  ///< places
  const kernels::Program program_;
  std::vector<kernels::Source> sources_;
  std::vector<kernels::Target> targets_;
  std::vector<kernels::Job> jobs_;
};

Status find_on_device(const codec::Router& router, const Checks& checks, const Stripes& stripes,
                      std::size_t first, std::size_t count, std::optional<Difference>& found) {
  const DeviceComparison comparison(checks, stripes, first, count);
  unsigned long long at = kernels::no_difference;
  const Status status = router.compare(comparison.jobs(), &at, {});
  if (status != Status::ok || at == kernels::no_difference) return status;
  const auto& [stripe, byte, sums] =
      found.emplace(Difference{first + at / stripes.form.bytes, at % stripes.form.bytes,
                               std::vector<std::uint8_t>(checks.matrix().rows())});
  std::vector<std::uint8_t> column(checks.places.size());
  std::vector<kernels::Transfer> pieces;
  for (std::size_t i = 0; i < column.size(); ++i) {
    const auto& chunk = stripes.sources.data()[stripe * stripes.form.sources + checks.places[i]];
    pieces.push_back({const_cast<std::uint8_t*>(chunk.data) + byte, chunk.residence, &column[i], 1});
  }
  if (const Status fetched = kernels::fetch(pieces); fetched != Status::ok) return fetched;
  for (unsigned r = 0; r < sums.size(); ++r)
    for (unsigned c = 0; c < column.size(); ++c) found->sums[r] ^= gf::mul(checks.matrix()(r, c), column[c]);
  // Or the device is wrong.
  const bool differs = std::ranges::any_of(sums, [](auto sum) { return sum != 0; });
  return differs ? Status::ok : Status::fault;
}

/// In `count` stripes from stripe `first` on; those of host memory from byte `at` on.
Status find(const codec::Router& router, const Checks& checks, const Stripes& stripes, std::size_t first,
            std::size_t count, std::size_t at, std::optional<Difference>& found) {
  if (stripes.form.bytes == 0 || count == 0 || checks.plan->targets.empty()) return Status::ok;
  if (stripes.on_device) return find_on_device(router, checks, stripes, first, count, found);
  HostComparison comparison(router, checks);
  const std::size_t width = stripes.form.sources;
  Status status = Status::ok;
  for (std::size_t s = first; s < first + count && status == Status::ok && !found; ++s) {
    status = comparison.find(stripes.sources.view().subspan(s * width, width), at, stripes.form.bytes, found);
    if (found) found->stripe = s;
  }
  return status;
}

/// Of those chunks. Throws std::bad_alloc.
Checks checks_of(const codec::Codec& codec, const gf::ChunkSet& chunks, std::span<const unsigned> available) {
  Checks checks{codec.checks(chunks), {}};
  if (!checks.plan) throw std::bad_alloc();
  for (const unsigned chunk : checks.plan->sources)
    checks.places.push_back(
        static_cast<std::uint8_t>(std::ranges::find(available, chunk) - available.begin()));
  return checks;
}

gf::ChunkSet set_of(std::span<const unsigned> chunks) {
  gf::ChunkSet set;
  for (const unsigned chunk : chunks) set.insert(chunk);
  return set;
}

[[noreturn]] void refuse_nothing_to_compare(std::size_t available) {
  refuse(Errc::too_few_chunks,
         "available has {} chunks, and none follows from the others: there is nothing to compare", available);
}

/// The only column of the checks that the sums are a multiple of.
std::optional<unsigned> only_multiple(const gf::Matrix& checks, const std::vector<std::uint8_t>& sums) {
  const auto pivot =
      static_cast<unsigned>(std::ranges::find_if(sums, [](auto s) { return s != 0; }) - sums.begin());
  std::optional<unsigned> only;
  for (unsigned column = 0; column < checks.cols(); ++column) {
    const std::uint8_t factor = gf::mul(sums[pivot], gf::inv(checks(pivot, column)));
    bool multiple = factor != 0;
    for (unsigned r = 0; r < checks.rows() && multiple; ++r)
      multiple = gf::mul(factor, checks(r, column)) == sums[r];
    if (multiple && only) return std::nullopt;
    if (multiple) only = column;
  }
  return only;
}

}  // namespace

Status Engine::compare(std::span<const unsigned> available, const Stripes& stripes, Verdict& verdict,
                       bool refuse_nothing) const {
  verdict = {};
  const gf::ChunkSet all = set_of(available);
  const Checks checks = checks_of(codec_, all, available);
  if (checks.plan->targets.empty() && refuse_nothing) refuse_nothing_to_compare(available.size());
  if (checks.plan->targets.empty()) return Status::ok;
  need_device(stripes, {});
  std::optional<Difference> found, other;
  Status status = find(codec_.router(), checks, stripes, 0, stripes.form.stripes, 0, found);
  if (status != Status::ok || !found) return status;
  verdict = {false, found->stripe, found->byte, std::nullopt};
  const auto suspect = only_multiple(checks.matrix(), found->sums);
  if (!suspect) return Status::ok;
  const unsigned chunk = checks.plan->sources[*suspect];
  const Checks without = checks_of(codec_, all - gf::ChunkSet{chunk}, available);
  status = find(codec_.router(), without, stripes, found->stripe, 1, found->byte, other);
  if (status == Status::ok && !other) verdict.chunk = chunk;
  return status;
}

Status Engine::verify_on(std::span<const unsigned> available, const Stripes& stripes,
                         unsigned long long* difference, const Stream& stream) const {
  if (difference == nullptr) refuse("{} is null", "difference");
  if (reinterpret_cast<std::uintptr_t>(difference) % sizeof *difference != 0)
    refuse("difference={} must be aligned to {} bytes", fmt::ptr(difference), sizeof *difference);
  const Checks checks = checks_of(codec_, set_of(available), available);
  if (checks.plan->targets.empty()) refuse_nothing_to_compare(available.size());
  if (stripes.form.bytes == 0 || stripes.form.stripes == 0) refuse("{}", "there is no byte to compare");
  need_device(stripes, stream);
  const DeviceComparison comparison(checks, stripes, 0, stripes.form.stripes);
  return codec_.router().compare(comparison.jobs(), difference, *stream);
}

Status Engine::checked_decode(const Decoding& decoding, std::span<const unsigned> available,
                              const Stripes& stripes) const {
  Verdict verdict;
  if (const Status status = compare(available, stripes, verdict, false); status != Status::ok) return status;
  if (!verdict.agree)
    refuse(Errc::chunks_disagree, "sources disagree, first in stripe {} at byte {}; {}", verdict.stripe,
           verdict.byte,
           verdict.chunk ? fmt::format("chunk {} alone is wrong", *verdict.chunk)
                         : "which chunk is wrong cannot be told");
  return decode(decoding, stripes, {});
}

}  // namespace ec::library
