#include "kernels/cuda/submit/device_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <new>
#include <optional>

#include "gf/gf256.hpp"
#include "kernels/cuda/device/stream_wait.hpp"
#include "kernels/cuda/submit/staged_chunks.hpp"
#include "kernels/cuda/submit/stripes.hpp"

namespace ec::kernels::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// Of the pieces in staging memory. Whole pages where a piece has some, so that no slice but the last leaves
/// a rest to the tile kernels.
constexpr std::size_t piece_alignment = 256;
constexpr std::size_t page_bytes = 4096;
/// A job takes at most this part of the staging memory, so that others find some.
constexpr std::size_t staging_share = 4;
/// Staging memory of one slice. By reckoning, for a link of 50 GB/s and a core that copies 10: the device is
/// some 60 us at it, several times what a launch takes, and less than the core is at its copies. Two of them
/// stay in a core's share of the last cache, where the device finds what was copied in, and the core what the
/// device wrote.
constexpr std::size_t most_slice_bytes = std::size_t{4} << 20;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// The least equal slices of `bytes` that are no longer than `most`, but for the last; 0 if nothing fits.
std::size_t even_slices(std::size_t bytes, std::size_t most) {
  const std::size_t unit = most < page_bytes ? piece_alignment : page_bytes;
  most = most / unit * unit;
  if (most == 0 || bytes == 0) return most;
  const std::size_t slices = (bytes + most - 1) / most;
  return round_up((bytes + slices - 1) / slices, unit);
}

/// What a slice needs that is under way. Its memory is never used again if nobody sees its end.
struct Slot {
  Slot() = default;
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot() {
    if (!flight) return;
    staging.quarantine();
    lane->abandon();
  }

  std::optional<Device::Lane> lane;
  PinnedBlock staging;
  std::optional<LinkClock::Flight> flight;  // while the device may be at it
  Clock::time_point departure;
  Outcome launched;
  Slice slice;
};

class DeviceJob {
 public:
  DeviceJob(const std::shared_ptr<Device>& device, const Job& job, Verb verb, KernelKind kind,
            const Launcher* launcher)
      : device_(device),
        driver_(device->driver()),
        job_(job),
        verb_(verb),
        kind_(kind),
        launcher_(launcher),
        chunks_(job, verb) {}

  Outcome run();

 private:
  bool plan_slices();
  bool take_slots();
  Slice slice_at(std::size_t offset, std::uint8_t* staging) const;
  Outcome run_at_once();
  Outcome run_in_turn();
  void send(Slot& slot, std::size_t link_bytes);
  Outcome launch(CUstream stream, std::size_t bytes);
  Outcome wait(Slot& slot, bool gave_up);
  void finish(Slot& slot, Outcome& outcome);

  const std::shared_ptr<Device>& device_;
  const Driver& driver_;
  const Job& job_;
  const Verb verb_;
  const KernelKind kind_;
  const Launcher* const launcher_;
  StagedChunks chunks_;
  std::size_t slice_bytes_ = 0;  // of every chunk
  std::size_t stride_ = 0;       // from one staged chunk to the next
  bool in_turn_ = false;         // slices take turns in the slots, instead of lying side by side in the first
  std::array<Slot, 2> slots_;
  std::size_t slots_used_ = 1;
};

/// Sets slice_bytes_, stride_ and in_turn_; false if there can be no staging memory for this job.
bool DeviceJob::plan_slices() {
  const std::size_t staged = chunks_.count();
  slice_bytes_ = job_.bytes;
  if (staged == 0) return true;
  stride_ = round_up(job_.bytes, piece_alignment);
  const std::size_t share = std::bit_floor(device_->pool().limit() / staging_share);
  if (verb_ == Verb::accumulate) {
    // Slices that are copied out cannot be taken back when a later one fails: all of them are staged.
    slice_bytes_ = even_slices(job_.bytes, most_slice_bytes / staged);
    return stride_ <= share / staged;
  }
  if (stride_ <= std::min(most_slice_bytes, share) / staged) return true;
  in_turn_ = true;
  slice_bytes_ = stride_ =
      even_slices(job_.bytes, std::min(most_slice_bytes, share / slots_.size()) / staged);
  return slice_bytes_ != 0;
}

/// A lane and staging memory for each slot: one slot at least, or false. Two are enough: the host copies for
/// one while the device is at the other, and whichever of them is slower is never idle.
bool DeviceJob::take_slots() {
  Slot& first = slots_[0];
  const std::size_t bytes = chunks_.count() * stride_;
  first.lane = device_->borrow_lane();
  if (!first.lane) return false;
  if (bytes == 0) return true;
  first.staging = device_->pool().allocate(bytes);
  if (!first.staging) return false;
  if (!in_turn_) return true;
  Slot& second = slots_[1];
  second.lane = device_->borrow_second_lane();
  if (second.lane) second.staging = device_->pool().allocate(bytes);
  if (second.staging)
    slots_used_ = 2;
  else
    second.lane.reset();
  return true;
}

Slice DeviceJob::slice_at(std::size_t offset, std::uint8_t* staging) const {
  return {offset, std::min(slice_bytes_, job_.bytes - offset), staging, stride_};
}

/// Copies slot.slice in and launches it. What is under way in the slot already stays in front of it.
void DeviceJob::send(Slot& slot, std::size_t link_bytes) {
  chunks_.copy_in(slot.slice);
  if (!slot.flight) {
    slot.flight.emplace(device_->link_clock(), link_bytes);
    slot.departure = Clock::now();
  }
  try {
    slot.launched = launch(slot.lane->stream(), slot.slice.bytes);
  } catch (const std::bad_alloc&) {
    slot.launched = {Status::busy, {}, false};
  }
}

Outcome DeviceJob::launch(CUstream stream, std::size_t bytes) {
  const std::size_t link_jobs = on_device(job_) ? 0 : device_->link_clock().jobs();
  const auto r =
      launcher_ == nullptr
          ? launch_stripe(device_, *job_.program, {chunks_.sources(), chunks_.targets(), bytes, link_jobs},
                          verb_, {kind_}, stream)
          : (*launcher_)(*device_, job_.program->matrix(), chunks_.sources(), chunks_.targets(), bytes,
                         verb_ == Verb::accumulate, stream);
  return r == CUDA_SUCCESS ? Outcome{} : fault(driver_, "cuLaunchKernel", r);
}

/// Waits for what the slot has under way. gave_up: a deadline has passed already, and no other is granted.
Outcome DeviceJob::wait(Slot& slot, bool gave_up) {
  const std::size_t chunks = job_.sources.size() + job_.targets.size();
  Work work{.bytes = slice_bytes_ * chunks, .writes_in_place = chunks_.writes_in_place(), .overdue = gave_up};
  if (!in_turn_) work.bytes = job_.bytes * chunks;
  const bool alone = slice_bytes_ >= job_.bytes || (in_turn_ && slots_used_ == 1);
  if (!alone) work.under_way = Clock::now() - slot.departure;
  Outcome outcome = wait_for(*device_, *slot.lane, *slot.flight, work);
  if (outcome.gave_up) slot.staging.quarantine();
  slot.flight.reset();
  // A wide code is several launches: when a later one fails, the earlier ones are still waited for.
  return outcome.status != Status::ok ? outcome : slot.launched;
}

/// Waits for the slot if it has something under way, and copies it out if all has gone well so far. What went
/// wrong first is kept in `outcome`, but for a flight that is given up: that counts most.
void DeviceJob::finish(Slot& slot, Outcome& outcome) {
  if (!slot.flight) return;
  Outcome landed = wait(slot, outcome.gave_up);
  if (outcome.status == Status::ok || (landed.gave_up && !outcome.gave_up)) outcome = std::move(landed);
  if (outcome.status == Status::ok) chunks_.copy_out(slot.slice);
}

/// All slices side by side in one slot: the next is copied in while the device is at those before it, and all
/// of them are copied out at the end.
Outcome DeviceJob::run_at_once() {
  Slot& slot = slots_[0];
  const std::size_t link_bytes = job_.bytes * busier_direction(job_);
  for (std::size_t offset = 0; offset < job_.bytes; offset += slice_bytes_) {
    slot.slice = slice_at(offset, slot.staging.data() + offset);
    send(slot, link_bytes);
    if (slot.launched.status != Status::ok) break;
  }
  slot.slice = {0, job_.bytes, slot.staging.data(), stride_};
  Outcome outcome;
  finish(slot, outcome);
  return outcome;
}

/// The slices take turns in the slots: while the device is at one, that before it is copied out and the next
/// one in.
Outcome DeviceJob::run_in_turn() {
  const std::size_t link_bytes = slice_bytes_ * busier_direction(job_);
  Outcome outcome;
  std::size_t turn = 0;
  for (std::size_t offset = 0; offset < job_.bytes; offset += slice_bytes_) {
    Slot& slot = slots_[turn++ % slots_used_];
    finish(slot, outcome);
    if (outcome.status != Status::ok) break;
    slot.slice = slice_at(offset, slot.staging.data());
    send(slot, link_bytes);
    if (slot.launched.status != Status::ok) break;
  }
  // The one that was launched last is waited for last.
  for (std::size_t i = 0; i < slots_used_; ++i) finish(slots_[turn++ % slots_used_], outcome);
  return outcome;
}

Outcome DeviceJob::run() {
  Device::Scope scope(*device_);
  if (scope.result() != CUDA_SUCCESS) return fault(driver_, "cuCtxPushCurrent", scope.result());
  if (!plan_slices() || !take_slots()) return {Status::busy, {}, false};
  return in_turn_ ? run_in_turn() : run_at_once();
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
