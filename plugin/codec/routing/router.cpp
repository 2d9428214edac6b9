#include "plugin/codec/routing/router.hpp"

#include <bit>

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
  ResidenceRange range;
  for (const auto& s : job.sources) range.add(s.residence);
  for (const auto& t : job.targets) range.add(t.residence);
  return range;
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

double least_start_us(const CostTable& costs) {
  double start = costs.pinned.call_us + costs.pinned.stripe_us;
  if (costs.pageable) start = std::min(start, costs.pageable->call_us + costs.pageable->stripe_us);
  return DeviceLoad::lowest * start;
}

}  // namespace

Router::Router(BackendChoice choice, std::optional<std::size_t> threshold_bytes, const CostTable& costs,
               std::span<Backend* const> backends, Counters& counts, Validator& validator, DeviceLoad& load)
    : choice_(choice),
      threshold_bytes_(threshold_bytes),
      costs_(&costs),
      backends_(backends),
      counts_(&counts),
      validator_(&validator),
      load_(&load),
      can_be_pinned_(kernels::can_be_pinned()),
      start_us_(least_start_us(costs)) {
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

std::optional<Decision> Router::settled(std::uint64_t source_bytes, ResidenceRange lie) const noexcept {
  using enum Decision::Reason;
  if (lie.nearest_device == Residence::device) return Decision{true, on_device};
  if (choice_ != BackendChoice::automatic) return Decision{choice_ == BackendChoice::gpu, forced};
  if (lie.nearest_host == Residence::pageable && (threshold_bytes_ || !costs_->pageable))
    return Decision{false, pageable_stays};
  if (threshold_bytes_) return Decision{source_bytes >= *threshold_bytes_, threshold};
  return std::nullopt;
}

Decision Router::decide(const Work& work, ResidenceRange lie, unsigned jobs_on_device) const noexcept {
  if (const auto decision = settled(work.sources * work.chunk_bytes * work.stripes, lie)) return *decision;
  const double device = *device_us(*costs_, work, lie.nearest_host, jobs_on_device);
  const double cpu = cpu_us(*costs_, work);
  return {device < cpu, Decision::Reason::predicted_faster, device, cpu};
}

bool Router::admits(const Backend& backend, const Job& job) const noexcept {
  if (backend.name() != "cuda") return may_code(backend.name());
  return decide(work_of({Verb::transform, {&job, 1}}), residences(job), queue()).device;
}

Router::Offer Router::offer(const Call& call) const noexcept {
  // Whose answer does not depend on where the chunks lie is not asked to look.
  if (choice_ == BackendChoice::gpu) return {.device = true};
  const ResidenceRange lie = residences(call.jobs.front());
  const auto decision = settled(source_bytes(call.jobs), lie);
  const Offer offer = decision ? Offer{.device = decision->device} : compare(work_of(call), lie);
  if (can_be_pinned_ && !offer.device && lie.nearest_host == Residence::pageable)
    say_pinned_is_wanted(work_of(call));
  return offer;
}

Router::Offer Router::compare(const Work& work, ResidenceRange lie) const noexcept {
  Offer offer{.compared = true};
  offer.call.cpu_us = cpu_us(*costs_, work);
  if (offer.call.cpu_us <= start_us_) return offer;
  offer.call.device_us = *device_us(*costs_, work, lie.nearest_host, queue());
  offer.call.kind = kind_of(work, lie);
  offer.device = load_->factor(offer.call.kind) * offer.call.device_us < offer.call.cpu_us;
  if (!offer.device && offer.call.device_us < offer.call.cpu_us)
    offer.device = offer.call.probe = load_->claim_probe(offer.call);
  return offer;
}

void Router::say_pinned_is_wanted(const Work& work) const noexcept {
  constexpr ResidenceRange pinned{Residence::pinned, Residence::pinned};
  if (choice_ == BackendChoice::automatic && decide(work, pinned, 0).device) kernels::want_pinned();
}

Validator::Answer Router::attempt(std::size_t i, const Call& call, const Offer& offer) const noexcept {
  const bool checked = (watched_ >> i & 1u) != 0 && validator_->is_due();
  const auto ask = [&]() -> Validator::Answer {
    if (checked) [[unlikely]]
      return validator_->run(backends_, i, call);
    return {perform(*backends_[i], call)};
  };
  if ((device_ >> i & 1u) == 0) return ask();
  const DeviceLoad::InFlight in_flight(*load_);
  const Counters::OnDevice shown(*counts_);
  const auto begun = load_->now();
  const Validator::Answer answer = ask();
  // What a check takes is not the device's time.
  if (offer.compared && !checked && answer.status == Status::ok) load_->took(offer.call, begun);
  return answer;
}

Status Router::run(const Call& call, Operation operation) const noexcept {
  Counters::Job count(*counts_, operation, source_bytes(call.jobs));
  Status last = Status::unsupported;
  unsigned left = admitted_ & ~validator_->off();
  Offer offered;
  if ((left & device_) != 0) {
    offered = offer(call);
    if (!offered.device) left &= ~device_;
  } else if (device_ != 0) {
    last = Status::fault;  // it gave wrong bytes
  }
  while (left != 0) {
    const auto i = static_cast<std::size_t>(std::countr_zero(left));
    left &= left - 1;
    count.begins();
    const auto [status, doubted] = attempt(i, call, offered);
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
  Counters::Job count(*counts_, operation, source_bytes(jobs), Counters::Timed::never);
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    if ((device_ & validator_->off() & 1u << i) != 0) return Status::fault;
    const Status status = backends_[i]->enqueue(jobs, stream);
    if (status == Status::ok) count.finished(i);
    if (status == Status::unsupported) continue;
    if (status != Status::ok) count.fell_back(i, status);
    return status;
  }
  return Status::unsupported;
}

}  // namespace ec::codec
