// Where stripes lie, and whether they are right.
#include "tests/common/placed_stripes.hpp"

#include <algorithm>
#include <list>
#include <mutex>

#include "gf/generator.hpp"
#include "kernels/residence.hpp"
#include "support/process_life.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {

using tools::Buffer;

namespace {

/// Pageable memory comes first: while the preload's arena is open, it is pinned.
Buffer allocate(std::size_t bytes, Residence residence) {
  if (residence != Residence::device) {
    Buffer memory = Buffer::allocate(bytes, Residence::pageable);
    if (residence == Residence::pageable || kernels::residence_of(memory.data(), bytes) == residence)
      return memory;
  }
  return Buffer::allocate(bytes, residence);
}

}  // namespace

PlacedStripes::PlacedStripes(const Shape& shape, std::uint64_t seed)
    : shape_(shape),
      rows_(shape.generated ? to_rows(gf::coding_matrix(gf::Technique::reed_sol_van, shape.k, shape.m))
                            : random_matrix(shape.m, shape.k, seed)),
      program_(to_matrix(rows_)),
      source_memory_(allocate(shape.count * shape.k * stride(), shape.sources)),
      target_memory_(allocate(shape.count * shape.m * stride(), shape.targets)),
      before_(Random(seed + 1).bytes(shape.count * shape.m * stride())) {
  if (!source_memory_ || !target_memory_) return;
  const auto residence = [&](Residence given, const Buffer& memory) {
    return shape.as_found ? kernels::residence_of(memory.data(), stride()) : given;
  };
  for (std::size_t i = 0; i < shape.count * shape.k; ++i)
    sources_.push_back({source_memory_.data() + i * stride(), residence(shape.sources, source_memory_)});
  for (std::size_t i = 0; i < shape.count * shape.m; ++i)
    targets_.push_back({target_memory_.data() + i * stride(), residence(shape.targets, target_memory_)});
  for (std::size_t s = 0; s < shape.count; ++s)
    jobs_.push_back({&program_, std::span(sources_).subspan(s * shape.k, shape.k),
                     std::span(targets_).subspan(s * shape.m, shape.m), shape.bytes});
  placed_ = refill(seed) && restore_targets();
}

bool PlacedStripes::refill(std::uint64_t seed) {
  const unsigned k = shape_.k, m = shape_.m;
  const auto chunks = Random(seed).chunks(shape_.count * k, shape_.bytes);
  source_bytes_.assign(shape_.count * k * stride(), 0);
  for (std::size_t i = 0; i < chunks.size(); ++i)
    std::copy_n(chunks[i].data(), shape_.bytes, source_bytes_.data() + i * stride());
  expected_ = before_;
  for (std::size_t s = 0; s < shape_.count; ++s) {
    const auto first = chunks.begin() + static_cast<std::ptrdiff_t>(s * k);
    const auto coded = oracle::apply(rows_, {first, first + k});
    for (std::size_t r = 0; r < m; ++r)
      for (std::size_t i = 0; i < shape_.bytes; ++i) {
        std::uint8_t& byte = expected_[(s * m + r) * stride() + i];
        byte = shape_.verb == Verb::accumulate ? byte ^ coded[r][i] : coded[r][i];
      }
  }
  return source_memory_.upload(source_memory_.data(), source_bytes_.data(), source_bytes_.size());
}

std::optional<bool> PlacedStripes::hold(const oracle::Bytes& content, std::size_t bytes) const {
  oracle::Bytes now(before_.size());
  if (!target_memory_.download(now.data(), target_memory_.data(), now.size())) return std::nullopt;
  bool same = true;
  for (std::size_t at = 0; at < now.size(); at += stride())
    same = same && std::equal(now.data() + at, now.data() + at + bytes, content.data() + at);
  return same;
}

oracle::Bytes PlacedStripes::expected(std::size_t target) const {
  const std::uint8_t* const first = expected_.data() + target * stride();
  return {first, first + shape_.bytes};
}

bool PlacedStripes::has_sources() const {
  oracle::Bytes now(source_bytes_.size());
  return source_memory_.download(now.data(), source_memory_.data(), now.size()) && now == source_bytes_;
}

void PlacedStripes::fill_targets(std::uint8_t value) {
  before_.assign(before_.size(), value);
  restore_targets();
}

void PlacedStripes::abandon() const {
  static NeverDestroyed<std::list<Buffer>> kept;  // LeakSanitizer finds the memory here
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  kept.value.insert(kept.value.end(), {source_memory_, target_memory_});
}

}  // namespace ec::test
