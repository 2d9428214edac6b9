// Picks the back end for a job, and finishes the job on the next back end when one does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/backends.hpp"
#include "plugin/codec/checking/validator.hpp"
#include "plugin/codec/routing/call_times.hpp"
#include "plugin/codec/settings/settings.hpp"
#include "plugin/codec/stats/stats.hpp"

namespace ec::codec {

/// Immutable; any thread may use it at any time.
class Router {
 public:
  /// Bytes of all sources from which the device gets pinned chunks as long as its times are unknown: an H100
  /// on PCIe 5 takes 0.74 of a core's time for 8 sources of 64 KiB.
  static constexpr std::size_t first_threshold_bytes = std::size_t{512} << 10;

  /// threshold_bytes: see NodeSettings.
  /// backends: best first, the floor last, at most max_backends; counts gets a row for each of them, in that
  /// order. All of them must outlive the router. `choice` means:
  ///   auto       the device if any chunk lies there. Never if one is pageable; if only pageable chunks keep
  ///              a call from the device, kernels::want_pinned() is called. Where all chunks are pinned,
  ///              the device from threshold_bytes on, if they are set; else as CallTimes says, and from
  ///              first_threshold_bytes on as long as CallTimes knows nothing. Otherwise every back end for
  ///              the CPU in order
  ///   gpu        the device first, whatever the residence; then as cpu
  ///   cpu, x86   every back end for the CPU in order; the device never
  ///   isal       the judges in order, so ISA-L first
  ///   reference  the floor only
  /// Device memory is given to the device whatever the choice, and never to a back end for the CPU.
  Router(BackendChoice choice, std::optional<std::size_t> threshold_bytes,
         std::span<kernels::Backend* const> backends = kernels::backends(), Stats& counts = stats(),
         Validator& validator = no_validation(), CallTimes& times = call_times);

  /// Goes down the ordered list until a back end finishes the job, past back ends that the validator has
  /// found wrong. Where it finds the bytes of this call wrong, a judge makes all of them anew. Returns ok, or
  /// the last status when no back end could: unsupported, busy, fault or hung (see kernels::Status), which
  /// takes chunks in device memory, or (hung) targets in pinned memory that a device which stopped answering
  /// may still write. operation: the counted operation; Operation::update accumulates. pageable: whether all
  /// chunks are known to be, unless the process has the preload.
  kernels::Status transform(const kernels::Job& job, Operation operation = Operation::encode,
                            bool pageable = false) const noexcept;
  /// transform of each job; one back end does all jobs, so that a device can take them in one go. The first
  /// job and the bytes of all jobs decide the route.
  kernels::Status transform_all(std::span<const kernels::Job> jobs,
                                Operation operation = Operation::encode) const noexcept;
  /// See kernels::Backend::enqueue: on the device, whatever the policy, since no other back end can. Not
  /// validated: the result is there only after the call.
  kernels::Status enqueue(std::span<const kernels::Job> jobs, void* stream,
                          Operation operation = Operation::encode) const noexcept;
  /// See kernels::Backend::compare: on the device, whatever the policy. Not counted, and not validated: the
  /// caller checks a reported difference.
  kernels::Status compare(std::span<const kernels::Job> jobs, unsigned long long* difference,
                          const std::optional<void*>& stream) const noexcept;
  /// The first back end of the CPU that the choice allows, that was not found wrong, and that supports the
  /// job.
  kernels::Backend& cpu_backend(const kernels::Job& job) const noexcept;

 private:
  /// Whether a call goes to the device now. If the device and the CPU were compared for the call, *compared
  /// is filled.
  bool is_for_device(const BackendCall& call, std::uint64_t source_bytes,
                     std::optional<CallTimes::Choice>* compared) const noexcept;
  /// Calls in flight on one device, as far as calls are evenly spread.
  unsigned jobs_a_device() const noexcept;
  /// Has backends_[i] do the call. checked: by the validator.
  Validator::Answer ask(std::size_t i, const BackendCall& call, bool checked,
                        const std::optional<CallTimes::Choice>& compared) const noexcept;
  /// Does a pageable job that the device never gets and nobody times or checks: most jobs, and small ones
  /// notice every instruction. false: transform_all() does the job, also where a back end could not.
  bool code_plainly(const kernels::Job& job, Operation operation) const noexcept;

  BackendChoice choice_;
  std::optional<std::size_t> threshold_bytes_;
  std::span<kernels::Backend* const> backends_;
  // Bit i is for backends_[i].
  unsigned cpu_ = 0;      ///< admitted by the choice
  unsigned device_ = 0;   ///< the devices, whatever the choice
  unsigned watched_ = 0;  ///< by the validator
  Stats* counts_;
  Validator* validator_;
  CallTimes* times_;
  bool pageable_stays_;  ///< on the CPU, whatever else a call is; want_pinned() is not to be called
};

}  // namespace ec::codec
