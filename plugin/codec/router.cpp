#include "plugin/codec/router.hpp"

#include <algorithm>

namespace ec::codec {
namespace {

using kernels::Backend;
using kernels::Job;
using kernels::Residence;
using kernels::Status;

std::uint64_t source_bytes(const Job& job) { return std::uint64_t{job.bytes} * job.sources.size(); }

std::uint64_t source_bytes(std::span<const Job> jobs) {
  std::uint64_t sum = 0;
  for (const Job& job : jobs) sum += source_bytes(job);
  return sum;
}

/// The chunk nearest to the host and the one nearest to the device, in the order of the enumerators.
struct ResidenceRange {
  Residence nearest_host = Residence::device;
  Residence nearest_device = Residence::pageable;

  void add(Residence r) {
    nearest_host = std::min(nearest_host, r);
    nearest_device = std::max(nearest_device, r);
  }
};

ResidenceRange residences(const Job& job) {
  ResidenceRange range;
  for (const auto& s : job.sources) range.add(s.residence);
  for (const auto& t : job.targets) range.add(t.residence);
  return range;
}

}  // namespace

Router::Router(BackendChoice choice, std::size_t threshold_bytes, std::span<Backend* const> backends,
               Counters& counts)
    : choice_(choice),
      threshold_bytes_(threshold_bytes),
      backends_(backends),
      admissions_{},
      counts_(&counts) {
  for (std::size_t i = 0; i < backends.size(); ++i) admissions_[i] = admission_of(backends[i]->name());
}

Router::Admission Router::admission_of(std::string_view backend) const noexcept {
  if (backend == "cuda") return Admission::by_job;
  const bool above_choice = (choice_ == BackendChoice::isal && backend == "x86") ||
                            (choice_ == BackendChoice::reference && backend != "reference");
  return above_choice ? Admission::never : Admission::always;
}

bool Router::device_takes(const Job& job, std::uint64_t bytes) const noexcept {
  if (choice_ == BackendChoice::gpu) return true;
  const ResidenceRange range = residences(job);
  if (range.nearest_device == Residence::device) return true;
  return choice_ == BackendChoice::automatic && range.nearest_host != Residence::pageable &&
         bytes >= threshold_bytes_;
}

bool Router::admits(const Backend& backend, const Job& job) const noexcept {
  return takes(admission_of(backend.name()), job, source_bytes(job));
}

template <class Verb>
Status Router::run(const Job& job, std::uint64_t bytes, Verb&& verb) const noexcept {
  Status last = Status::unsupported;
  if (choice_ == BackendChoice::automatic && bytes >= threshold_bytes_ &&
      residences(job).nearest_host == Residence::pageable)
    kernels::want_pinned();
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    if (!takes(admissions_[i], job, bytes)) continue;
    const Status status = verb(*backends_[i]);
    if (status == Status::ok) {
      counts_->finished(i, bytes);
      return status;
    }
    // A late write could land on top of another back end's result.
    if (status == Status::hung) {
      counts_->fell_back(i);
      return status;
    }
    if (status == Status::unsupported) continue;
    counts_->fell_back(i);
    last = status;
  }
  return last;
}

Status Router::transform(const Job& job) const noexcept {
  return run(job, source_bytes(job), [&](Backend& b) { return b.transform(job); });
}

Status Router::accumulate(const Job& job) const noexcept {
  return run(job, source_bytes(job), [&](Backend& b) { return b.accumulate(job); });
}

Status Router::transform_all(std::span<const Job> jobs) const noexcept {
  if (jobs.empty()) return Status::ok;
  return run(jobs.front(), source_bytes(jobs), [&](Backend& b) { return b.transform_all(jobs); });
}

Status Router::enqueue(std::span<const Job> jobs, void* stream) const noexcept {
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    const Status status = backends_[i]->enqueue(jobs, stream);
    if (status == Status::ok) counts_->finished(i, source_bytes(jobs));
    if (status != Status::unsupported) return status;
  }
  return Status::unsupported;
}

}  // namespace ec::codec
