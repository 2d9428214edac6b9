// Decisions, and the way of a call down the list of back ends.
#include "plugin/codec/routing/router.hpp"

#include <bit>

#include "support/no_cancellation.hpp"

namespace ec::codec {
namespace {

using kernels::Backend;
using kernels::BackendKind;
using kernels::Job;
using kernels::Residence;
using kernels::Status;
using kernels::Verb;

std::uint64_t source_bytes(std::span<const Job> jobs) {
  std::uint64_t sum = 0;
  for (const Job& job : jobs) sum += std::uint64_t{job.bytes} * job.sources.size();
  return sum;
}

constexpr unsigned bit(Residence residence) { return 1u << static_cast<unsigned>(residence); }

/// The bits of the chunks' residences.
unsigned residences_of(const Job& job) {
  unsigned seen = 0;
  for (const auto& s : job.sources) seen |= bit(s.residence);
  for (const auto& t : job.targets) seen |= bit(t.residence);
  return seen;
}

Verb verb_of(Operation operation) {
  return operation == Operation::update ? Verb::accumulate : Verb::transform;
}

/// Bytes read and written.
std::uint64_t moved_bytes(const BackendCall& call) {
  const Job& job = call.jobs.front();
  const std::size_t passes = call.verb == Verb::accumulate ? 2 : 1;
  return std::uint64_t{job.bytes} * (job.sources.size() + passes * job.targets.size()) * call.jobs.size();
}

}  // namespace

Router::Router(BackendChoice choice, std::optional<std::size_t> threshold_bytes,
               std::span<Backend* const> backends, Stats& counts, Validator& validator, CallTimes& times)
    : choice_(choice),
      threshold_bytes_(threshold_bytes),
      backends_(backends),
      counts_(&counts),
      validator_(&validator),
      times_(&times),
      pageable_stays_(!kernels::can_be_pinned() && choice != BackendChoice::gpu) {
  const BackendKind least = choice == BackendChoice::isal        ? BackendKind::judge
                            : choice == BackendChoice::reference ? BackendKind::floor
                                                                 : BackendKind::coder;
  for (std::size_t i = 0; i < backends.size(); ++i) {
    const BackendKind kind = backends[i]->kind();
    (kind == BackendKind::device ? device_ : cpu_) |= unsigned{kind == BackendKind::device || kind >= least}
                                                      << i;
    watched_ |= unsigned{validator.watches(kind)} << i;
  }
}

bool Router::is_for_device(const BackendCall& call, std::uint64_t source_bytes,
                           std::optional<CallTimes::Choice>* compared) const noexcept {
  // A choice that does not depend on the chunks' places needs no look at them.
  if (choice_ == BackendChoice::gpu) return true;
  unsigned lie = 0;
  for (const Job& job : call.jobs) lie |= residences_of(job);
  if ((lie & bit(Residence::device)) != 0) return true;
  if (choice_ != BackendChoice::automatic) return false;
  const bool by_size = source_bytes >= threshold_bytes_.value_or(first_threshold_bytes);
  if ((lie & bit(Residence::pageable)) != 0) {
    if (by_size) kernels::want_pinned();
    return false;
  }
  const std::uint64_t moved = threshold_bytes_ ? 0 : moved_bytes(call);
  if (moved < CallTimes::least_bytes) return threshold_bytes_ && by_size;
  return compared->emplace(times_->choose(moved, jobs_a_device(), by_size)).device;
}

unsigned Router::jobs_a_device() const noexcept { return counts_->on_device() / kernels::device_count(); }

Validator::Answer Router::ask(std::size_t i, const BackendCall& call, bool checked,
                              const std::optional<CallTimes::Choice>& compared) const noexcept {
  const support::NoCancellation whole;
  const auto answer = [&]() -> Validator::Answer {
    if (checked) return validator_->run(backends_, i, call);
    return {perform(*backends_[i], call)};
  };
  const bool on_device = (device_ >> i & 1u) != 0;
  // The time of a check is not the back end's, and a back end after the device was not chosen.
  const bool timed = compared && compared->timed && compared->device == on_device && !checked;
  if (!on_device && !timed) return answer();
  std::optional<Stats::OnDevice> in_flight;
  if (on_device) in_flight.emplace(*counts_);
  const auto begun = times_->now();
  const Validator::Answer given = answer();
  in_flight.reset();
  if (timed && given.status == Status::ok) times_->took(*compared, begun, jobs_a_device());
  return given;
}

[[gnu::always_inline]] inline bool Router::code_plainly(const Job& job, Operation operation) const noexcept {
  const unsigned able = cpu_ & ~validator_->off();
  const std::uint64_t bytes = std::uint64_t{job.bytes} * job.sources.size();
  if (able == 0 || bytes >= timed_from_bytes) return false;
  const auto i = static_cast<std::size_t>(std::countr_zero(able));
  ThisThread& thread = this_thread();
  if (!thread.passes((watched_ >> i & 1u) != 0)) return false;
  Backend& backend = *backends_[i];
  if (backend.code(job, verb_of(operation)) != Status::ok) return false;
  Stats::JobRecord(*counts_, thread, operation, bytes, Stats::Timed::never).finished(i);
  return true;
}

Status Router::transform_all(std::span<const Job> jobs, Operation operation) const noexcept {
  const BackendCall call{verb_of(operation), jobs};
  const std::uint64_t bytes = source_bytes(jobs);
  ThisThread& thread = this_thread();
  Stats::JobRecord count(*counts_, thread, operation, bytes);
  Status last = Status::unsupported;
  unsigned left = (cpu_ | device_) & ~validator_->off();
  std::optional<CallTimes::Choice> compared;
  if ((left & device_) != 0) {
    if (!is_for_device(call, bytes, &compared)) left &= ~device_;
  } else if (device_ != 0) {
    last = Status::fault;  // it gave wrong bytes
  }
  while (left != 0) {
    const auto i = static_cast<std::size_t>(std::countr_zero(left));
    left &= left - 1;
    count.begins();
    const bool checked = (watched_ >> i & 1u) != 0 && validator_->is_due(thread);
    const auto [status, doubted] = ask(i, call, checked, compared);
    if (status == Status::ok) {
      count.finished(i);
      return status;
    }
    count.fell_back(i, status);
    // A late write could land on top of another back end's result.
    if (status == Status::hung) return status;
    if (status != Status::unsupported) last = status;
    if (doubted) left &= ~(watched_ | validator_->off());
  }
  return last;
}

Status Router::transform(const Job& job, Operation operation, bool pageable) const noexcept {
  if (pageable_stays_ && (pageable || residences_of(job) == bit(Residence::pageable)) &&
      code_plainly(job, operation)) [[likely]]
    return Status::ok;
  return transform_all({&job, 1}, operation);
}

Status Router::enqueue(std::span<const Job> jobs, void* stream, Operation operation) const noexcept {
  const support::NoCancellation whole;
  if (device_ == 0) return Status::unsupported;
  if ((device_ & validator_->off()) != 0) return Status::fault;
  const auto i = static_cast<std::size_t>(std::countr_zero(device_));
  Stats::JobRecord count(*counts_, this_thread(), operation, source_bytes(jobs), Stats::Timed::never);
  const Status status = backends_[i]->enqueue(jobs, verb_of(operation), stream);
  if (status == Status::ok)
    count.finished(i);
  else if (status != Status::unsupported)
    count.fell_back(i, status);
  return status;
}

Status Router::compare(std::span<const Job> jobs, unsigned long long* difference,
                       const std::optional<void*>& stream) const noexcept {
  const support::NoCancellation whole;
  if (device_ == 0) return Status::unsupported;
  if ((device_ & validator_->off()) != 0) return Status::fault;
  std::optional<Stats::OnDevice> in_flight;
  if (!stream) in_flight.emplace(*counts_);
  return backends_[static_cast<std::size_t>(std::countr_zero(device_))]->compare(jobs, difference, stream);
}

Backend& Router::cpu_backend(const Job& job) const noexcept {
  unsigned left = cpu_ & ~validator_->off();
  for (; left != 0; left &= left - 1) {
    Backend& backend = *backends_[static_cast<std::size_t>(std::countr_zero(left))];
    if (backend.supports(job)) return backend;
  }
  return *backends_.back();
}

}  // namespace ec::codec
