// Picks the back end for a job, and finishes the job on the next one when a back end does not.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/backends.hpp"
#include "plugin/codec/checking/validator.hpp"
#include "plugin/codec/routing/cost_model.hpp"
#include "plugin/codec/routing/device_load.hpp"
#include "plugin/codec/settings/settings.hpp"
#include "plugin/codec/stats/stats.hpp"

namespace ec::codec {

/// The chunk of a call that is nearest to the host and the one nearest to the device.
struct ResidenceRange {
  kernels::Residence nearest_host = kernels::Residence::device;
  kernels::Residence nearest_device = kernels::Residence::pageable;
};

/// Whether a call is offered to the device, and why.
struct Decision {
  enum class Reason : unsigned char {
    on_device,        ///< a chunk lies there
    forced,           ///< by the choice of back end, to the device or away from it
    threshold,        ///< by EC_CUDA_THRESHOLD
    pageable_stays,   ///< a chunk is pageable, and the table has no costs for that
    predicted_faster  ///< clearly, or not, by device_us and cpu_us, which no other reason sets
  };
  bool device = false;
  Reason reason = Reason::forced;
  double device_us = 0;
  double cpu_us = 0;
};

/// Immutable; any thread may use it at any time.
class Router {
 public:
  /// threshold_bytes, costs: see NodeSettings.
  /// backends: best first, the floor last, at most max_backends; counts gets a row for each of them, in that
  /// order. All of them must outlive the router.
  Router(BackendChoice choice, std::optional<std::size_t> threshold_bytes,
         const CostTable& costs = default_costs(),
         std::span<kernels::Backend* const> backends = kernels::backends(), Stats& counts = stats(),
         Validator& validator = no_validation(), DeviceLoad& load = device_load());

  /// Whether the choice lets a back end of that name code at all; it may still decline. `choice` means:
  ///   auto       the device if any chunk lies there, or if no chunk is pageable and the device is predicted
  ///              to take less than DeviceLoad::clear_gain of the CPU's time, with what it has in hand now
  ///              and with what calls there took lately (DeviceLoad); or, where a threshold is set, if no
  ///              chunk is pageable and the sources have that many bytes in all; then the CPU back ends in
  ///              order. Pageable chunks are compared too if the table has costs for them on the device. A
  ///              job that only its pageable chunks keep from the device is said to kernels::want_pinned().
  ///   gpu        the device first, whatever the residence; then as cpu
  ///   cpu        every CPU back end in order; the device never
  ///   x86        x86, or what follows it where the CPU lacks the instructions
  ///   isal       isal, then reference
  ///   reference  reference only
  /// Device memory is given to the device whatever the choice, and never to a CPU back end.
  bool may_code(std::string_view backend) const noexcept;

  /// Goes down the ordered list until a back end finishes the job, past those that the validator has found
  /// wrong. Where it finds the bytes of this call wrong, a judge makes all of them anew. Returns ok, or the
  /// last status when no back end could: unsupported, busy, fault or hung (see kernels::Status), which takes
  /// chunks in device memory, or (hung) targets in pinned memory that a device which stopped answering may
  /// still write. operation: what it is counted as; an accumulate is an update.
  kernels::Status transform(const kernels::Job& job, Operation operation = Operation::encode) const noexcept;
  kernels::Status accumulate(const kernels::Job& job) const noexcept;
  /// transform of each job; one back end does them all, so that a device can take them in one go. They are
  /// routed by the first one and by the bytes of all.
  kernels::Status transform_all(std::span<const kernels::Job> jobs,
                                Operation operation = Operation::encode) const noexcept;
  /// See kernels::Backend::enqueue: on the device, whatever the policy, since nobody else can. Not validated:
  /// the result is there only after the call.
  kernels::Status enqueue(std::span<const kernels::Job> jobs, void* stream,
                          Operation operation = Operation::encode) const noexcept;

  /// What a call of this form would be answered with `jobs_on_device` calls in flight there, by policy and
  /// table alone. Allocates nothing and takes no lock.
  Decision decide(const Work& work, ResidenceRange lie, unsigned jobs_on_device) const noexcept;

  BackendChoice choice() const noexcept { return choice_; }

 private:
  /// What decides on chunks that lie so.
  Decision::Reason reason_for(ResidenceRange lie) const noexcept;
  /// The decision by any reason but a prediction.
  bool by_rule(Decision::Reason reason, std::uint64_t source_bytes) const noexcept;
  bool is_brief(const kernels::Job& job) const noexcept;
  /// Calls in flight on the device that gets the next one, as far as they are evenly spread.
  unsigned queue() const noexcept { return counts_->on_device() / kernels::device_count(); }
  /// Whether a call goes to the device as things are now. If the device and the CPU were compared for it,
  /// *compared is filled: its time on the device is learned from.
  bool is_for_device(const Call& call, std::uint64_t source_bytes,
                     std::optional<DeviceLoad::Prediction>* compared) const noexcept;
  bool compare(const Work& work, ResidenceRange lie,
               std::optional<DeviceLoad::Prediction>* compared) const noexcept;
  /// Where the device is wanted for what only pageable chunks keep from it.
  void say_pinned_is_wanted(const Work& work) const noexcept;
  /// Has backends_[i] do the call. checked: by the validator.
  Validator::Answer ask(std::size_t i, const Call& call, bool checked,
                        const std::optional<DeviceLoad::Prediction>& compared) const noexcept;
  kernels::Status run(const Call& call, Operation operation) const noexcept;

  BackendChoice choice_;
  std::optional<std::size_t> threshold_bytes_;
  const CostTable* costs_;
  std::span<kernels::Backend* const> backends_;
  // Bit i is for backends_[i], so that a call compares no names.
  unsigned admitted_ = 0;
  unsigned device_ = 0;   ///< gets what is offered to it
  unsigned watched_ = 0;  ///< by the validator
  Stats* counts_;
  Validator* validator_;
  DeviceLoad* load_;
  bool can_be_pinned_;   ///< the process has the preload
  bool pageable_stays_;  ///< whatever else a call is; nobody is to hear of it
  /// A call of fewer bytes times targets has ended on the CPU before the device has begun, whatever is
  /// learned. The question would make such calls of a microsecond longer by a thirtieth of one.
  std::uint64_t brief_bytes_;
};

}  // namespace ec::codec
