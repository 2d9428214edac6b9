#include "kernels/cuda/device_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "gf/gf256.hpp"
#include "kernels/cuda/stream_wait.hpp"
#include "kernels/cuda/stripes.hpp"

namespace ec::kernels::cuda {
namespace {

constexpr std::size_t staging_alignment = 256;
/// A job takes at most this part of the staging memory, so that others find some.
constexpr std::size_t staging_share = 4;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

class DeviceJob {
 public:
  DeviceJob(const std::shared_ptr<Device>& device, const Job& job, Verb verb, KernelKind kind,
            const Launcher* launcher)
      : device_(device),
        driver_(device->driver()),
        job_(job),
        verb_(verb),
        kind_(kind),
        launcher_(launcher) {}

  Outcome run();

 private:
  bool is_staged(const Source& s) const { return s.residence == Residence::pageable; }
  bool is_staged(const Target& t) const {
    return t.residence == Residence::pageable ||
           (verb_ == Verb::accumulate && t.residence == Residence::pinned);
  }
  bool writes_in_place() const {
    return std::ranges::any_of(job_.targets, [&](const Target& t) { return !is_staged(t); });
  }
  bool plan_slices();
  void lay_out(std::size_t offset);
  void copy_in(std::size_t offset, std::size_t bytes);
  void copy_out(std::size_t offset, std::size_t bytes);
  Outcome launch(CUstream stream, std::size_t bytes);
  Outcome wait(Device::Lane& lane, LinkClock::Flight& flight);

  const std::shared_ptr<Device>& device_;
  const Driver& driver_;
  const Job& job_;
  const Verb verb_;
  const KernelKind kind_;
  const Launcher* const launcher_;
  PinnedBlock staging_;
  std::size_t slice_bytes_ = 0;
  std::vector<const std::uint8_t*> sources_;  // of the slice at hand, as the device sees them
  std::vector<std::uint8_t*> targets_;
};

/// Sets slice_bytes_ and takes staging memory for it; false if there is none.
bool DeviceJob::plan_slices() {
  const auto staged = static_cast<std::size_t>(
      std::ranges::count_if(job_.sources, [&](const Source& s) { return is_staged(s); }) +
      std::ranges::count_if(job_.targets, [&](const Target& t) { return is_staged(t); }));
  slice_bytes_ = job_.bytes;
  if (staged == 0) return true;
  const std::size_t largest = std::bit_floor(device_->pool().limit() / staging_share) / staged;
  slice_bytes_ = std::min(job_.bytes, largest / staging_alignment * staging_alignment);
  if (slice_bytes_ == 0) return false;
  // The slices of an accumulate that are done cannot be taken back when a later one fails.
  if (verb_ == Verb::accumulate && slice_bytes_ < job_.bytes) return false;
  staging_ = device_->pool().allocate(staged * round_up(slice_bytes_, staging_alignment));
  return static_cast<bool>(staging_);
}

void DeviceJob::lay_out(std::size_t offset) {
  std::uint8_t* next = staging_.data();
  const std::size_t stride = round_up(slice_bytes_, staging_alignment);
  sources_.clear();
  targets_.clear();
  for (const Source& s : job_.sources) {
    sources_.push_back(is_staged(s) ? next : s.data + offset);
    if (is_staged(s)) next += stride;
  }
  for (const Target& t : job_.targets) {
    targets_.push_back(is_staged(t) ? next : t.data + offset);
    if (is_staged(t)) next += stride;
  }
}

void DeviceJob::copy_in(std::size_t offset, std::size_t bytes) {
  for (std::size_t i = 0; i < job_.sources.size(); ++i)
    if (is_staged(job_.sources[i]))
      std::memcpy(const_cast<std::uint8_t*>(sources_[i]), job_.sources[i].data + offset, bytes);
  if (verb_ != Verb::accumulate) return;
  for (std::size_t i = 0; i < job_.targets.size(); ++i)
    if (is_staged(job_.targets[i])) std::memcpy(targets_[i], job_.targets[i].data + offset, bytes);
}

void DeviceJob::copy_out(std::size_t offset, std::size_t bytes) {
  for (std::size_t i = 0; i < job_.targets.size(); ++i)
    if (is_staged(job_.targets[i])) std::memcpy(job_.targets[i].data + offset, targets_[i], bytes);
}

Outcome DeviceJob::launch(CUstream stream, std::size_t bytes) {
  const std::size_t link_jobs = on_device(job_) ? 0 : device_->link_clock().jobs();
  const auto r = launcher_ == nullptr
                     ? launch_stripe(device_, *job_.program, {sources_, targets_, bytes, link_jobs}, verb_,
                                     {kind_}, stream)
                     : (*launcher_)(*device_, job_.program->matrix(), sources_, targets_, bytes,
                                    verb_ == Verb::accumulate, stream);
  return r == CUDA_SUCCESS ? Outcome{} : fault(driver_, "cuLaunchKernel", r);
}

Outcome DeviceJob::wait(Device::Lane& lane, LinkClock::Flight& flight) {
  const std::size_t chunks = job_.sources.size() + job_.targets.size();
  Outcome outcome = wait_for(*device_, lane, flight,
                             {.bytes = slice_bytes_ * chunks, .writes_in_place = writes_in_place()});
  if (outcome.status != Status::ok && outcome.gave_up) staging_.quarantine();
  return outcome;
}

Outcome DeviceJob::run() {
  Device::Scope scope(*device_);
  if (scope.result() != CUDA_SUCCESS) return fault(driver_, "cuCtxPushCurrent", scope.result());
  auto lane = device_->borrow_lane();
  if (!lane || !plan_slices()) return {Status::busy, {}, false};
  for (std::size_t offset = 0; offset < job_.bytes; offset += slice_bytes_) {
    const std::size_t bytes = std::min(slice_bytes_, job_.bytes - offset);
    lay_out(offset);
    copy_in(offset, bytes);
    LinkClock::Flight flight(device_->link_clock(), slice_bytes_ * busier_direction(job_));
    // A wide code is several launches: when a later one fails, the earlier ones are still waited for.
    const Outcome launched = launch(lane->stream(), bytes);
    const Outcome waited = wait(*lane, flight);
    if (waited.status != Status::ok) return waited;
    if (launched.status != Status::ok) return launched;
    copy_out(offset, bytes);
  }
  return {};
}

}  // namespace

Outcome run_job(const std::shared_ptr<Device>& device, const Job& job, Verb verb, KernelKind kind,
                const Launcher* launcher) {
  return DeviceJob(device, job, verb, kind, launcher).run();
}

bool self_test(const std::shared_ptr<Device>& device, std::string* why) {
  constexpr std::uint8_t coefficient = 0xa7;
  gf::Matrix matrix(1, 1);
  matrix(0, 0) = coefficient;
  const Program program(matrix);
  std::array<std::uint8_t, 256> in;
  std::array<std::uint8_t, 256> out{};
  for (unsigned i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(i);
  const Source source{in.data(), Residence::pageable};
  const Target target{out.data(), Residence::pageable};
  const auto outcome =
      run_job(device, {&program, {&source, 1}, {&target, 1}, in.size()}, Verb::transform, KernelKind::tile);
  if (outcome.status != Status::ok) {
    *why = fmt::format("self-test: {}", outcome.reason.empty() ? name(outcome.status) : outcome.reason);
    return false;
  }
  for (unsigned i = 0; i < in.size(); ++i)
    if (out[i] != gf::mul(coefficient, in[i])) {
      *why = fmt::format("self-test: {} times {} gave {}", coefficient, i, out[i]);
      return false;
    }
  return true;
}

}  // namespace ec::kernels::cuda
