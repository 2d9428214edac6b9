#include "plugin/codec/router.hpp"

namespace ec::codec {
namespace {

using kernels::Backend;
using kernels::Job;
using kernels::Residence;
using kernels::Status;

bool any_chunk(const Job& job, Residence residence) {
  for (const auto& s : job.sources)
    if (s.residence == residence) return true;
  for (const auto& t : job.targets)
    if (t.residence == residence) return true;
  return false;
}

std::uint64_t source_bytes(const Job& job) { return std::uint64_t{job.bytes} * job.sources.size(); }

}  // namespace

bool Router::admits(const Backend& backend, const Job& job) const noexcept {
  if (backend.name() == "cuda") {
    if (any_chunk(job, Residence::device)) return true;
    if (choice_ == BackendChoice::gpu) return true;
    return choice_ == BackendChoice::automatic && !any_chunk(job, Residence::pageable) &&
           source_bytes(job) >= threshold_bytes_;
  }
  if (choice_ == BackendChoice::isal) return backend.name() != "x86";
  return choice_ != BackendChoice::reference || backend.name() == "reference";
}

template <class Verb>
Status Router::run(const Job& job, Verb&& verb) const noexcept {
  Status last = Status::unsupported;
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    if (!admits(*backends_[i], job)) continue;
    const Status status = verb(*backends_[i]);
    if (status == Status::ok) {
      counts_->finished(i, source_bytes(job));
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
  return run(job, [&](Backend& b) { return b.transform(job); });
}

Status Router::accumulate(const Job& job) const noexcept {
  return run(job, [&](Backend& b) { return b.accumulate(job); });
}

}  // namespace ec::codec
