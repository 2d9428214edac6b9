// Whether chunks agree: the sums that are zero where they do, made block by block in one pass over the
// chunks.
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
/// A block of all chunks, where they are copied from a device.
constexpr std::size_t fetched_bytes = 4 << 20;

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

/// Looks for differences between some chunks of a stripe.
class Comparison {
 public:
  /// places: of a stripe, where each of the chunks that the checks read stands. May throw std::bad_alloc.
  Comparison(const codec::Router& router, const codec::Plan& checks, std::span<const std::uint8_t> places,
             bool on_device)
      : router_(router),
        checks_(checks),
        places_(places),
        sources_(places.size()),
        sums_(checks.targets.size()) {
    block_ = on_device ? fetched_bytes / places.size() : host_block;
    block_ = block_ / line * line;
    lines_.resize(checks.targets.size() * block_ / line);
    for (std::size_t i = 0; i < sums_.size(); ++i)
      sums_[i] = {reinterpret_cast<std::uint8_t*>(row(i)), kernels::Residence::pageable};
    if (on_device) fetched_.resize(places.size() * block_);
  }

  struct Difference {
    std::size_t byte;
    std::vector<std::uint8_t> sums;  ///< there, of each check
  };

  /// The first one from byte `at` on, which is a multiple of the block or not: any.
  Status find(std::span<const kernels::Source> stripe, std::size_t at, std::size_t bytes,
              std::optional<Difference>& found) {
    for (; at < bytes; at += block_) {
      const std::size_t length = std::min(block_, bytes - at);
      if (const Status status = sum(stripe, at, length); status != Status::ok) return status;
      const std::size_t lines = (length + line - 1) / line;
      std::size_t first = lines * line;
      for (std::size_t i = 0; i < sums_.size(); ++i) first = std::min(first, first_not_zero(row(i), lines));
      if (first == lines * line) continue;
      auto& difference = found.emplace(at + first, std::vector<std::uint8_t>(sums_.size()));
      for (std::size_t i = 0; i < sums_.size(); ++i) difference.sums[i] = sums_[i].data[first];
      break;
    }
    return Status::ok;
  }

 private:
  Line* row(std::size_t i) { return lines_.data() + i * (block_ / line); }

  /// The sums of that block, and zeros behind them to the end of a line.
  Status sum(std::span<const kernels::Source> stripe, std::size_t at, std::size_t length) {
    std::vector<kernels::Transfer> pieces;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const kernels::Source& chunk = stripe[places_[i]];
      sources_[i] = {chunk.data + at, chunk.residence};
      if (chunk.residence != kernels::Residence::device) continue;
      std::uint8_t* here = fetched_.data() + i * block_;
      pieces.push_back({const_cast<std::uint8_t*>(chunk.data) + at, chunk.residence, here, length});
      sources_[i] = {here, kernels::Residence::pageable};
    }
    if (!pieces.empty())
      if (const Status status = kernels::fetch(pieces); status != Status::ok) return status;
    for (std::size_t i = 0; i < sums_.size() && length % line != 0; ++i) row(i)[length / line] = {};
    const kernels::Job job{&checks_.program, sources_, sums_, length};
    // The next block comes from memory while this one is summed up.
    if (fetched_.empty())
      for (const kernels::Source& source : sources_)
        for (std::size_t next = length; next < 2 * length; next += line)
          __builtin_prefetch(source.data + next);
    if (backend_ == nullptr) backend_ = &router_.cpu_backend(job);
    return backend_->transform(job);
  }

  const codec::Router& router_;
  const codec::Plan& checks_;
  std::span<const std::uint8_t> places_;
  std::vector<kernels::Source> sources_;
  std::vector<kernels::Target> sums_;  ///< the rows of lines_
  std::vector<Line> lines_;
  std::vector<std::uint8_t> fetched_;
  std::size_t block_;
  kernels::Backend* backend_ = nullptr;
};

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
  gf::ChunkSet all;
  std::array<std::uint8_t, gf::max_chunks> place_of;
  for (std::size_t i = 0; i < available.size(); ++i) {
    all.insert(available[i]);
    place_of[available[i]] = static_cast<std::uint8_t>(i);
  }
  const auto checks_of = [&](const gf::ChunkSet& chunks, std::vector<std::uint8_t>& places) {
    const auto checks = codec_.checks(chunks);
    if (!checks) throw std::bad_alloc();
    for (const auto chunk : checks->sources) places.push_back(place_of[chunk]);
    return checks;
  };
  std::vector<std::uint8_t> places, places_of_others;
  const auto checks = checks_of(all, places);
  if (checks->targets.empty() && !refuse_nothing) return Status::ok;
  if (checks->targets.empty())
    refuse(Errc::too_few_chunks,
           "available has {} chunks, and none follows from the others: there is nothing to compare",
           available.size());
  need_device(stripes, {});
  const auto& [count, bytes, sources, targets] = stripes.form;
  Comparison comparison(codec_.router(), *checks, places, stripes.on_device);
  for (std::size_t s = 0; s < count; ++s) {
    const auto stripe = stripes.sources.view().subspan(s * sources, sources);
    std::optional<Comparison::Difference> found;
    if (const Status status = comparison.find(stripe, 0, bytes, found); status != Status::ok) return status;
    if (!found) continue;
    verdict = {false, s, found->byte, std::nullopt};
    const auto suspect = only_multiple(checks->program.matrix(), found->sums);
    if (!suspect) return Status::ok;
    const unsigned chunk = checks->sources[*suspect];
    const auto without = checks_of(all - gf::ChunkSet{chunk}, places_of_others);
    Comparison others(codec_.router(), *without, places_of_others, stripes.on_device);
    std::optional<Comparison::Difference> other;
    if (const Status status = others.find(stripe, found->byte, bytes, other); status != Status::ok)
      return status;
    if (!other) verdict.chunk = chunk;
    return Status::ok;
  }
  return Status::ok;
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
