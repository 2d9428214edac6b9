#include "kernels/cuda/submit/stripes.hpp"

#include <algorithm>

#include "kernels/cuda/generate/emit.hpp"

namespace ec::kernels::cuda {
namespace {

constexpr std::uintptr_t load_alignment = 16;

std::vector<std::uint8_t*> addresses_of(std::span<const Job> jobs) {
  std::vector<std::uint8_t*> list;
  list.reserve(jobs.size() * (jobs.front().sources.size() + jobs.front().targets.size()));
  for (const Job& job : jobs) {
    // The table has one type; kernels do not write sources.
    for (const Source& s : job.sources) list.push_back(const_cast<std::uint8_t*>(s.data));
    for (const Target& t : job.targets) list.push_back(t.data);
  }
  return list;
}

bool of_every_chunk(const Job& job, auto&& holds) {
  return std::ranges::all_of(job.sources, holds) && std::ranges::all_of(job.targets, holds);
}

}  // namespace

bool in_place(const Job& job) {
  return of_every_chunk(job, [](const auto& chunk) { return chunk.residence != Residence::pageable; });
}

bool on_device(const Job& job) {
  return of_every_chunk(job, [](const auto& chunk) { return chunk.residence == Residence::device; });
}

std::size_t busier_direction(const Job& job) {
  const auto over_link = [](const auto& chunk) { return chunk.residence != Residence::device; };
  return static_cast<std::size_t>(
      std::max(std::ranges::count_if(job.sources, over_link), std::ranges::count_if(job.targets, over_link)));
}

bool are_stripes(std::span<const Job> jobs) {
  return jobs.size() > 1 && std::ranges::all_of(jobs, [&](const Job& job) {
           return job.program == jobs.front().program && job.bytes == jobs.front().bytes && in_place(job);
         });
}

Stripes::Stripes(std::span<const Job> jobs)
    : jobs_(jobs), addresses_(addresses_of(jobs)), over_link_(!std::ranges::all_of(jobs, on_device)) {}

CUfunction Stripes::generated(const std::shared_ptr<Device>& device, const KernelChoice& choice) const {
  const Program& program = *jobs_.front().program;
  const bool forced = choice.kind == KernelKind::generated;
  if (!forced && (choice.kind != KernelKind::automatic || !worth_generating(program.matrix())))
    return nullptr;
  const auto aligned = [](const std::uint8_t* p) {
    return reinterpret_cast<std::uintptr_t>(p) % load_alignment == 0;
  };
  if (jobs_.front().bytes < warp_tile || !std::ranges::all_of(addresses_, aligned)) return nullptr;
  const GeneratedProgram* generated = GeneratedProgram::of(program);
  if (generated == nullptr) return nullptr;
  return generated->function(device, ProgramForm::batch, count() * sources() * jobs_.front().bytes,
                             forced && choice.generated != GeneratedProgram::Wish::never
                                 ? GeneratedProgram::Wish::now
                                 : choice.generated);
}

std::size_t Stripes::link_jobs(const Device& device) const {
  // Work for a stream of the caller is in no flight.
  return over_link_ ? std::max<std::size_t>(device.link_clock().jobs(), 1) : 0;
}

CUresult Stripes::launch(const Device& device, CUfunction generated, CUdeviceptr table, std::size_t count,
                         CUstream stream) const {
  return launch_generated_batch(device, generated, jobs_.front().program->matrix(), table,
                                {{}, {}, jobs_.front().bytes, link_jobs(device)}, count, stream);
}

CUresult Stripes::launch_each(const std::shared_ptr<Device>& device, std::size_t first, std::size_t count,
                              const KernelChoice& choice, CUstream stream) const {
  std::vector<const std::uint8_t*> from(sources());
  for (std::size_t i = first; i < first + count; ++i) {
    const auto chunks = table(i, 1);
    std::ranges::copy(chunks.first(sources()), from.begin());
    const auto r = launch_stripe(device, *jobs_[i].program,
                                 {from, chunks.subspan(sources()), jobs_[i].bytes, link_jobs(*device)},
                                 Verb::transform, choice, stream);
    if (r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace ec::kernels::cuda
