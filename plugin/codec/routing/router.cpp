#include "plugin/codec/routing/router.hpp"

#include <time.h>

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

ResidenceRange residences(const Job& job) {
  ResidenceRange range;
  for (const auto& s : job.sources) range.add(s.residence);
  for (const auto& t : job.targets) range.add(t.residence);
  return range;
}

/// Far below a time slice.
constexpr double longest_uninterrupted_us = 100;
/// A call that the CPU is predicted to take less for is brief. To count it among the others under way is to
/// write twice to a line that all threads write, and to learn from it to write where all read: with 16
/// threads a call of 2.5 us took 3.6 (bench/results/host-h200-16-threads.json).
constexpr double brief_us = 10;

bool is_brief(const Decision& predicted) { return predicted.cpu_us < brief_us; }

/// Of this thread alone, or of all the world.
double clock_us(bool own_time) {
  timespec time{};
  clock_gettime(own_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

double margin(const ResidenceRange& lie, unsigned others) {
  if (lie.nearest_host != Residence::pageable) return 1;
  return others == 0 ? Router::pageable_margin : Router::pageable_margin_in_company;
}

/// However busy the cores are, a call whose bytes take the CPU less is the CPU's.
double bytes_us_of_short_calls(const CostTable& costs) {
  double start = costs.pinned.call_us + costs.pinned.stripe_us;
  if (costs.pageable) start = std::min(start, costs.pageable->call_us + costs.pageable->stripe_us);
  const Rates& cpu = costs.cpu.front().rates;
  return start / CpuLoad::most - cpu.call_us - cpu.stripe_us;
}

Work work_of(const Job& job, std::size_t stripes, bool accumulate) {
  return {static_cast<unsigned>(job.sources.size()), static_cast<unsigned>(job.targets.size()), job.bytes,
          stripes, accumulate};
}

}  // namespace

Router::Router(BackendChoice choice, std::optional<std::size_t> threshold_bytes, const CostTable& costs,
               std::span<Backend* const> backends, Counters& counts, Validator& validator, CpuLoad& load,
               Experience* experience)
    : choice_(choice),
      threshold_bytes_(threshold_bytes),
      costs_(&costs),
      backends_(backends),
      admissions_{},
      watched_{},
      counts_(&counts),
      validator_(&validator),
      load_(&load),
      experience_(experience),
      short_us_(bytes_us_of_short_calls(costs)) {
  for (std::size_t i = 0; i < backends.size(); ++i) {
    admissions_[i] = admission_of(backends[i]->name());
    watched_[i] = validator.watches(backends[i]->name());
  }
}

Router::Admission Router::admission_of(std::string_view backend) const noexcept {
  if (backend == "cuda") return Admission::by_job;
  const bool above_choice = (choice_ == BackendChoice::isal && backend == "x86") ||
                            (choice_ == BackendChoice::reference && backend != "reference");
  return above_choice ? Admission::never : Admission::always;
}

Decision Router::decide(const Work& work, ResidenceRange lie, unsigned jobs_on_device, double cpu_stretch,
                        unsigned others) const noexcept {
  using enum Decision::Reason;
  if (lie.nearest_device == Residence::device) return {true, on_device};
  if (choice_ != BackendChoice::automatic) return {choice_ == BackendChoice::gpu, forced};
  if (lie.nearest_host == Residence::pageable && (threshold_bytes_ || !costs_->pageable))
    return {false, pageable_stays};
  if (threshold_bytes_)
    return {work.sources * work.chunk_bytes * work.stripes >= *threshold_bytes_, threshold};
  const double device = device_stretch(lie.nearest_host, cpu_stretch) *
                        *device_us(*costs_, work, lie.nearest_host, jobs_on_device);
  const double cpu = cpu_stretch * cpu_us(*costs_, work);
  return {margin(lie, others) * device < cpu, predicted_faster, device, cpu};
}

unsigned Router::queue() const noexcept { return counts_->on_device() / kernels::device_count(); }

bool Router::admits(const Backend& backend, const Job& job) const noexcept {
  const Admission admission = admission_of(backend.name());
  return admission == Admission::always ||
         (admission == Admission::by_job && decide(work_of(job, 1, false), residences(job), queue()).device);
}

bool Router::is_short(const Job& job, bool accumulate) const noexcept {
  const CpuClass& least = costs_->cpu.front();
  const std::size_t moved = job.bytes * (job.sources.size() + (accumulate ? 2 : 1) * job.targets.size());
  // Each byte is multiplied at most as often as there are targets.
  const double us_per_mb = std::max(least.rates.read_us_per_mb, least.rates.written_us_per_mb) +
                           least.rates.product_us_per_mb * static_cast<double>(job.targets.size());
  return moved <= least.up_to_bytes && 1e-6 * static_cast<double>(moved) * us_per_mb < short_us_;
}

Router::Offer Router::offer(const Job& job, std::size_t stripes, bool accumulate,
                            std::optional<Experience::UnderWay>& under_way) const noexcept {
  using enum Residence;
  // Whose answer does not depend on where the chunks lie is not asked to look.
  if (choice_ == BackendChoice::gpu) return {true};
  const ResidenceRange lie = residences(job);
  const bool compares = choice_ == BackendChoice::automatic && !threshold_bytes_;
  if (compares && stripes == 1 && is_short(job, accumulate)) return {lie.nearest_device == device};

  const Work work = work_of(job, stripes, accumulate);
  const Decision decision = decide(work, lie, queue());
  // Where even the busiest cores are faster, nobody need look how busy they are.
  const bool open = decision.reason == Decision::Reason::predicted_faster &&
                    decision.device_us < CpuLoad::most * decision.cpu_us;
  unsigned others = 0;
  if (open && experience_ != nullptr) {
    // To see the others and to be one of them is one step, or threads in step would all be alone.
    if (!is_brief(decision)) under_way.emplace(*experience_);
    others = under_way ? under_way->others() : experience_->under_way();
  }
  const Offer offer = open ? compare(decision, work, lie, others) : Offer{decision.device};
  if (!offer.device && !offer.trial && choice_ == BackendChoice::automatic && lie.nearest_host == pageable &&
      decide(work, {pinned, pinned}, 0).device)
    kernels::want_pinned();
  return offer;
}

Router::Offer Router::compare(const Decision& predicted, const Work& work, const ResidenceRange& lie,
                              unsigned others) const noexcept {
  Offer offer{.device_us = predicted.device_us, .cpu_us = predicted.cpu_us};
  offer.road = lie.nearest_host == Residence::pageable ? Road::device_pageable : Road::device_pinned;
  offer.kind = {static_cast<std::uint64_t>(1e6 * (work.read_mb() + work.written_mb())), work.targets, others};
  const double stretch = load_->stretch();
  offer.device_us *= device_stretch(lie.nearest_host, stretch);
  double on_device = margin(lie, others) * offer.device_us;
  double on_cpu = stretch * offer.cpu_us;
  if (experience_ == nullptr) {
    offer.device = on_device < on_cpu;
    return offer;
  }
  on_device *= experience_->factor(offer.road, offer.kind);
  on_cpu *= experience_->factor(Road::cpu, offer.kind);
  offer.device = on_device < on_cpu;
  const bool close = std::max(on_device, on_cpu) < Experience::close * std::min(on_device, on_cpu);
  offer.trial = close && experience_->is_trial(offer.device ? Road::cpu : offer.road, offer.kind);
  const Road best = offer.device ? offer.road : Road::cpu;
  experience_->is_best(best, offer.kind);
  if (offer.trial) offer.device = !offer.device;
  offer.lesson = offer.trial || experience_->is_lesson(best, offer.kind, is_brief(predicted));
  return offer;
}

template <class Code>
Status Router::timed(const Offer& offer, bool device, const Experience::UnderWay* call,
                     Code&& code) const noexcept {
  const double predicted = device ? offer.device_us : offer.cpu_us;
  // A long call on a busy core is interrupted for others. How busy cores are is asked anew at each call, and
  // is not to be learned as well, so such a call is charged the time that was its own.
  const bool own_time = !device && predicted > longest_uninterrupted_us;
  const double begun = clock_us(own_time);
  const Status status = code();
  const double us = clock_us(own_time) - begun;
  if (status != Status::ok) return status;
  CallKind kind = offer.kind;
  // By its begin or its end, whichever had more.
  if (call != nullptr) kind.others = std::max(call->others(), call->others_now());
  const Road road = device ? offer.road : Road::cpu;
  experience_->took(road, kind, predicted, us);
  // Who coded it: a device that was busy was not tried.
  if (offer.trial) experience_->tried(road, offer.kind);
  return status;
}

template <class Code>
Status Router::run(const Call& call, Operation operation, std::uint64_t bytes, Code&& code) const noexcept {
  Status last = Status::unsupported;
  Counters::Job count(*counts_, operation, bytes);
  unsigned off = validator_->off();
  bool doubted = false;
  Offer offered;
  std::optional<Experience::UnderWay> under_way;
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    if (admissions_[i] == Admission::never || (doubted && watched_[i])) continue;
    if ((off >> i & 1u) != 0) [[unlikely]] {
      if (admissions_[i] == Admission::by_job) last = Status::fault;
      continue;
    }
    std::optional<Counters::OnDevice> mark;
    const bool device = admissions_[i] == Admission::by_job;
    if (device) {
      offered = offer(call.jobs.front(), call.jobs.size(), call.verb == Verb::accumulate, under_way);
      if (!offered.device) continue;
      mark.emplace(*counts_);
    }
    count.begins();
    Status status;
    if (watched_[i] && validator_->is_due()) [[unlikely]] {
      const Validator::Answer answer = validator_->run(backends_, i, call);
      status = answer.status;
      if (answer.doubted) {
        doubted = true;
        off = validator_->off();
      }
    } else if (offered.lesson) {
      status = timed(offered, device, under_way ? &*under_way : nullptr, [&] { return code(*backends_[i]); });
    } else {
      status = code(*backends_[i]);
    }
    if (status == Status::ok) {
      count.finished(i);
      return status;
    }
    count.fell_back(i, status);
    // A late write could land on top of another back end's result.
    if (status == Status::hung) return status;
    if (status != Status::unsupported) last = status;
  }
  return last;
}

Status Router::transform(const Job& job, Operation operation) const noexcept {
  return run({Verb::transform, {&job, 1}}, operation, source_bytes(job),
             [&](Backend& b) { return b.transform(job); });
}

Status Router::accumulate(const Job& job) const noexcept {
  return run({Verb::accumulate, {&job, 1}}, Operation::update, source_bytes(job),
             [&](Backend& b) { return b.accumulate(job); });
}

Status Router::transform_all(std::span<const Job> jobs, Operation operation) const noexcept {
  if (jobs.empty()) return Status::ok;
  return run({Verb::transform_all, jobs}, operation, source_bytes(jobs),
             [&](Backend& b) { return b.transform_all(jobs); });
}

Status Router::enqueue(std::span<const Job> jobs, void* stream, Operation operation) const noexcept {
  Counters::Job count(*counts_, operation, source_bytes(jobs), Counters::Timed::never);
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    if (admissions_[i] == Admission::by_job && (validator_->off() >> i & 1u) != 0) return Status::fault;
    const Status status = backends_[i]->enqueue(jobs, stream);
    if (status == Status::ok) count.finished(i);
    if (status == Status::unsupported) continue;
    if (status != Status::ok) count.fell_back(i, status);
    return status;
  }
  return Status::unsupported;
}

}  // namespace ec::codec
