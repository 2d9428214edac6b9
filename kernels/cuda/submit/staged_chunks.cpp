#include "kernels/cuda/submit/staged_chunks.hpp"

#include <algorithm>
#include <cstring>

namespace ec::kernels::cuda {

StagedChunks::StagedChunks(const Job& job, Verb verb)
    : job_(job), verb_(verb), sources_(job.sources.size()), targets_(job.targets.size()) {}

std::size_t StagedChunks::count() const {
  const auto staged = [this](const auto& chunk) { return is_staged(chunk); };
  return static_cast<std::size_t>(std::ranges::count_if(job_.sources, staged) +
                                  std::ranges::count_if(job_.targets, staged));
}

bool StagedChunks::writes_in_place() const {
  return std::ranges::any_of(job_.targets, [this](const Target& t) { return !is_staged(t); });
}

void StagedChunks::look_at(const Slice& slice) noexcept {
  std::uint8_t* next = slice.staging;
  const auto place = [&](const auto& chunk) {
    auto* at = chunk.data + slice.offset;
    if (is_staged(chunk)) {
      at = next;
      next += slice.stride;
    }
    return at;
  };
  std::ranges::transform(job_.sources, sources_.begin(), place);
  std::ranges::transform(job_.targets, targets_.begin(), place);
}

void StagedChunks::copy_in(const Slice& slice) noexcept {
  look_at(slice);
  for (std::size_t i = 0; i < sources_.size(); ++i)
    if (is_staged(job_.sources[i]))
      std::memcpy(const_cast<std::uint8_t*>(sources_[i]), job_.sources[i].data + slice.offset, slice.bytes);
  for (std::size_t i = 0; verb_ == Verb::accumulate && i < targets_.size(); ++i)
    if (is_staged(job_.targets[i]))
      std::memcpy(targets_[i], job_.targets[i].data + slice.offset, slice.bytes);
}

void StagedChunks::copy_out(const Slice& slice) noexcept {
  look_at(slice);
  for (std::size_t i = 0; i < targets_.size(); ++i)
    if (is_staged(job_.targets[i]))
      std::memcpy(job_.targets[i].data + slice.offset, targets_[i], slice.bytes);
}

}  // namespace ec::kernels::cuda
