// Where the chunks of a job lie, as a whole.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/backend.hpp"

namespace ec::kernels::cuda {

bool all_chunks(const Job& job, auto&& hold) {
  return std::ranges::all_of(job.sources, hold) && std::ranges::all_of(job.targets, hold);
}

/// Whether the device can address every chunk where it lies.
inline bool in_place(const Job& job) {
  return all_chunks(job, [](const auto& chunk) { return chunk.residence != Residence::pageable; });
}

/// Whether every chunk is in device memory.
inline bool on_device(const Job& job) {
  return all_chunks(job, [](const auto& chunk) { return chunk.residence == Residence::device; });
}

/// Chunks that go over the link to the host, in the direction that has more.
inline std::size_t link_chunks(const Job& job) {
  const auto over_link = [](const auto& chunk) { return chunk.residence != Residence::device; };
  return static_cast<std::size_t>(
      std::max(std::ranges::count_if(job.sources, over_link), std::ranges::count_if(job.targets, over_link)));
}

}  // namespace ec::kernels::cuda
