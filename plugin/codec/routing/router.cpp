// Decisions, and the way of a call down the list of back ends.
#include "plugin/codec/routing/router.hpp"

#include <bit>

#include "support/no_cancellation.hpp"

namespace ec::codec {
namespace {

using kernels::Backend;
using kernels::Job;
using kernels::Residence;
using kernels::Status;
using kernels::Verb;

std::uint64_t source_bytes(std::span<const Job> jobs) {
  std::uint64_t sum = 0;
  for (const Job& job : jobs) sum += std::uint64_t{job.bytes} * job.sources.size();
  return sum;
}

ResidenceRange residences(const Job& job) {
  // A bit for each residence: every call comes by here.
  unsigned seen = 0;
  for (const auto& s : job.sources) seen |= 1u << static_cast<unsigned>(s.residence);
  for (const auto& t : job.targets) seen |= 1u << static_cast<unsigned>(t.residence);
  if (seen == 0) return {};
  return {static_cast<Residence>(std::countr_zero(seen)), static_cast<Residence>(std::bit_width(seen) - 1)};
}

bool all_pageable(const Job& job) {
  static_assert(static_cast<unsigned>(Residence::pageable) == 0);
  unsigned seen = 0;
  for (const auto& s : job.sources) seen |= static_cast<unsigned>(s.residence);
  for (const auto& t : job.targets) seen |= static_cast<unsigned>(t.residence);
  return seen == 0;
}

/// Routed by the first job and by how many there are.
Work work_of(const Call& call) {
  const Job& job = call.jobs.front();
  return {static_cast<unsigned>(job.sources.size()), static_cast<unsigned>(job.targets.size()), job.bytes,
          call.jobs.size(), call.verb == Verb::accumulate};
}

DeviceLoad::Kind kind_of(const Work& work, ResidenceRange lie) {
  if (lie.nearest_host == Residence::pageable) return DeviceLoad::Kind::pageable;
  const double moved = 1e6 * (work.read_mb() + work.written_mb());
  return moved <= static_cast<double>(class_bounds[1]) ? DeviceLoad::Kind::small : DeviceLoad::Kind::large;
}

/// See Router::brief_bytes_. Each byte is multiplied once for each target at most.
std::uint64_t brief_bytes(const CostTable& costs) {
  const Rates& cpu = costs.cpu.front();
  const double start_us = std::min(costs.pinned.call_us, costs.pageable.value_or(costs.pinned).call_us);
  const double spare_us = DeviceLoad::lowest * start_us - cpu.call_us - cpu.stripe_us;
  const double us_a_byte = 1e-6 * (cpu.read_us_per_mb + cpu.written_us_per_mb + cpu.product_us_per_mb);
  if (!(spare_us > 0) || !(us_a_byte > 0)) return 0;
  return static_cast<std::uint64_t>(std::min(spare_us / us_a_byte, static_cast<double>(class_bounds[0])));
}

}  // namespace

Router::Router(BackendChoice choice, std::optional<std::size_t> threshold_bytes, const CostTable& costs,
               std::span<Backend* const> backends, Stats& counts, Validator& validator, DeviceLoad& load)
    : choice_(choice),
      threshold_bytes_(threshold_bytes),
      costs_(&costs),
      backends_(backends),
      counts_(&counts),
      validator_(&validator),
      load_(&load),
      can_be_pinned_(kernels::can_be_pinned()),
      pageable_stays_(!can_be_pinned_ && choice != BackendChoice::gpu &&
                      (choice != BackendChoice::automatic || threshold_bytes || !costs.pageable)),
      brief_bytes_(brief_bytes(costs)) {
  for (std::size_t i = 0; i < backends.size(); ++i) {
    const std::string_view name = backends[i]->name();
    admitted_ |= unsigned{may_code(name)} << i;
    device_ |= unsigned{name == "cuda"} << i;
    watched_ |= unsigned{validator.watches(name)} << i;
  }
}

bool Router::may_code(std::string_view backend) const noexcept {
  if (choice_ == BackendChoice::isal) return backend != "x86";
  if (choice_ == BackendChoice::reference) return backend == "reference" || backend == "cuda";
  return true;
}

Decision::Reason Router::reason_for(ResidenceRange lie) const noexcept {
  using enum Decision::Reason;
  if (lie.nearest_device == Residence::device) return on_device;
  if (choice_ != BackendChoice::automatic) return forced;
  if (lie.nearest_host == Residence::pageable && (threshold_bytes_ || !costs_->pageable))
    return pageable_stays;
  return threshold_bytes_ ? threshold : predicted_faster;
}

bool Router::by_rule(Decision::Reason reason, std::uint64_t source_bytes) const noexcept {
  using enum Decision::Reason;
  return reason == on_device || (reason == forced && choice_ == BackendChoice::gpu) ||
         (reason == threshold && source_bytes >= *threshold_bytes_);
}

bool Router::is_brief(const Job& job) const noexcept {
  const std::size_t targets = job.targets.size();
  return job.bytes * (job.sources.size() + 2 * targets) * targets < brief_bytes_;
}

Decision Router::decide(const Work& work, ResidenceRange lie, unsigned jobs_on_device) const noexcept {
  const Decision::Reason reason = reason_for(lie);
  if (reason != Decision::Reason::predicted_faster)
    return {by_rule(reason, work.sources * work.chunk_bytes * work.stripes), reason};
  const double device = *device_us(*costs_, work, lie.nearest_host, jobs_on_device);
  const double cpu = cpu_us(*costs_, work);
  return {device < DeviceLoad::clear_gain * cpu, reason, device, cpu};
}

bool Router::is_for_device(const Call& call, std::uint64_t source_bytes,
                           std::optional<DeviceLoad::Prediction>* compared) const noexcept {
  // Whose answer does not depend on where the chunks lie is not asked to look.
  if (choice_ == BackendChoice::gpu) return true;
  const ResidenceRange lie = residences(call.jobs.front());
  const Decision::Reason reason = reason_for(lie);
  bool device = false;
  if (reason != Decision::Reason::predicted_faster)
    device = by_rule(reason, source_bytes);
  else if (call.jobs.size() != 1 || !is_brief(call.jobs.front()))
    device = compare(work_of(call), lie, compared);
  if (can_be_pinned_ && !device && lie.nearest_host == Residence::pageable)
    say_pinned_is_wanted(work_of(call));
  return device;
}

bool Router::compare(const Work& work, ResidenceRange lie,
                     std::optional<DeviceLoad::Prediction>* compared) const noexcept {
  DeviceLoad::Prediction& call = compared->emplace();
  call.kind = kind_of(work, lie);
  call.device_us = *device_us(*costs_, work, lie.nearest_host, queue());
  call.cpu_table_us = cpu_us(*costs_, work);
  call.cpu_us = load_->cpu_factor(call.kind) * call.cpu_table_us;
  const double worth_us = DeviceLoad::clear_gain * call.cpu_us;
  if (load_->factor(call.kind) * call.device_us < worth_us) return true;
  return call.probe = call.device_us < worth_us && load_->claim_probe(call);
}

void Router::say_pinned_is_wanted(const Work& work) const noexcept {
  constexpr ResidenceRange pinned{Residence::pinned, Residence::pinned};
  if (choice_ == BackendChoice::automatic && decide(work, pinned, 0).device) kernels::want_pinned();
}

Validator::Answer Router::ask(std::size_t i, const Call& call, bool checked,
                              const std::optional<DeviceLoad::Prediction>& compared) const noexcept {
  const support::NoCancellation whole;
  const auto answer = [&]() -> Validator::Answer {
    if (checked) return validator_->run(backends_, i, call);
    return {perform(*backends_[i], call)};
  };
  const bool on_device = (device_ >> i & 1u) != 0;
  // What a check takes is not the back end's time.
  const bool timed = compared && !checked && (on_device || DeviceLoad::times_cpu(*compared));
  if (!on_device && !timed) return answer();
  std::optional<Stats::OnDevice> in_flight;
  if (on_device) in_flight.emplace(*counts_);
  const auto begun = load_->now();
  const Validator::Answer given = answer();
  if (timed && given.status == Status::ok)
    on_device ? load_->took(*compared, begun) : load_->cpu_took(*compared, begun);
  return given;
}

Status Router::run(const Call& call, Operation operation) const noexcept {
  const std::uint64_t bytes = source_bytes(call.jobs);
  Stats::Job count(*counts_, operation, bytes);
  Status last = Status::unsupported;
  unsigned left = admitted_ & ~validator_->off();
  std::optional<DeviceLoad::Prediction> compared;
  if ((left & device_) != 0) {
    if ((pageable_stays_ && all_pageable(call.jobs.front())) || !is_for_device(call, bytes, &compared))
      left &= ~device_;
  } else if (device_ != 0) {
    last = Status::fault;  // it gave wrong bytes
  }
  while (left != 0) {
    const auto i = static_cast<std::size_t>(std::countr_zero(left));
    left &= left - 1;
    count.begins();
    const bool checked = (watched_ >> i & 1u) != 0 && validator_->is_due();
    // Most calls want nothing beside the bytes, and a small one notices what is done for others.
    const bool plain = !checked && !compared && (device_ >> i & 1u) == 0;
    const auto [status, doubted] =
        plain ? Validator::Answer{perform(*backends_[i], call)} : ask(i, call, checked, compared);
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

Status Router::transform(const Job& job, Operation operation) const noexcept {
  return run({Verb::transform, {&job, 1}}, operation);
}

Status Router::accumulate(const Job& job) const noexcept {
  return run({Verb::accumulate, {&job, 1}}, Operation::update);
}

Status Router::transform_all(std::span<const Job> jobs, Operation operation) const noexcept {
  return jobs.empty() ? Status::ok : run({Verb::transform, jobs}, operation);
}

Status Router::enqueue(std::span<const Job> jobs, void* stream, Operation operation) const noexcept {
  const support::NoCancellation whole;
  Stats::Job count(*counts_, operation, source_bytes(jobs), Stats::Timed::never);
  const Verb verb = operation == Operation::update ? Verb::accumulate : Verb::transform;
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    if ((device_ & validator_->off() & 1u << i) != 0) return Status::fault;
    const Status status = backends_[i]->enqueue(jobs, verb, stream);
    if (status == Status::ok) count.finished(i);
    if (status == Status::unsupported) continue;
    if (status != Status::ok) count.fell_back(i, status);
    return status;
  }
  return Status::unsupported;
}

}  // namespace ec::codec
