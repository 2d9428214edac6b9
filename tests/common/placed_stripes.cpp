// Where stripes lie, and whether they are right.
#include "tests/common/placed_stripes.hpp"

#include <algorithm>
#include <cstdlib>
#include <list>
#include <mutex>
#include <utility>

#include "gf/generator.hpp"
#include "kernels/residence.hpp"
#include "tests/common/random_bytes.hpp"

namespace ec::test {

using kernels::Residence;

PlacedMemory::PlacedMemory(Residence residence, std::size_t bytes) : bytes_(bytes) {
  if (residence != Residence::device && posix_memalign(&block_, 4096, bytes) == 0) {
    data_ = static_cast<std::uint8_t*>(block_);
    if (residence == Residence::pageable || kernels::residence_of(data_, bytes) == residence) return;
    std::free(std::exchange(block_, nullptr));  // no preload, or its arena is not open
  }
  buffer_ = tools::Buffer::allocate(bytes, residence);
  data_ = buffer_.data();
}

PlacedMemory::~PlacedMemory() {
  // What a hung kernel may write to stays for good, where LeakSanitizer finds it.
  static auto* const kept = new std::list<std::pair<void*, tools::Buffer>>;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (abandoned_)
    kept->emplace_back(block_, std::move(buffer_));
  else
    std::free(block_);
}

bool PlacedMemory::put(const oracle::Bytes& content) const {
  if (block_ == nullptr) return buffer_.upload(data_, content.data(), bytes_);
  std::copy_n(content.data(), bytes_, data_);
  return true;
}

bool PlacedMemory::get(oracle::Bytes* content) const {
  content->resize(bytes_);
  if (block_ == nullptr) return buffer_.download(content->data(), data_, bytes_);
  std::copy_n(data_, bytes_, content->data());
  return true;
}

PlacedStripes::PlacedStripes(const Shape& shape, std::uint64_t seed)
    : shape_(shape),
      rows_(shape.generated ? to_rows(gf::coding_matrix(gf::Technique::reed_sol_van, shape.k, shape.m))
                            : random_matrix(shape.m, shape.k, seed)),
      program_(to_matrix(rows_)),
      source_memory_(shape.sources, shape.count * shape.k * stride()),
      target_memory_(shape.targets, shape.count * shape.m * stride()),
      before_(Random(seed + 1).bytes(shape.count * shape.m * stride())) {
  if (source_memory_.data() == nullptr || target_memory_.data() == nullptr) return;
  const auto residence = [&](Residence given, const PlacedMemory& memory) {
    return shape.as_found ? kernels::residence_of(memory.data(), stride()) : given;
  };
  for (std::size_t i = 0; i < shape.count * shape.k; ++i)
    sources_.push_back({source_memory_.data() + i * stride(), residence(shape.sources, source_memory_)});
  for (std::size_t i = 0; i < shape.count * shape.m; ++i)
    targets_.push_back({target_memory_.data() + i * stride(), residence(shape.targets, target_memory_)});
  for (std::size_t s = 0; s < shape.count; ++s)
    jobs_.push_back({&program_, std::span(sources_).subspan(s * shape.k, shape.k),
                     std::span(targets_).subspan(s * shape.m, shape.m), shape.bytes});
  placed_ = refill(seed) && target_memory_.put(before_);
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
  return source_memory_.put(source_bytes_);
}

std::optional<bool> PlacedStripes::hold(const oracle::Bytes& content, std::size_t bytes) const {
  oracle::Bytes now;
  if (!target_memory_.get(&now)) return std::nullopt;
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
  oracle::Bytes now;
  return source_memory_.get(&now) && now == source_bytes_;
}

void PlacedStripes::fill_targets(std::uint8_t value) {
  before_.assign(before_.size(), value);
  restore_targets();
}

void PlacedStripes::abandon() {
  source_memory_.abandon();
  target_memory_.abandon();
}

}  // namespace ec::test
