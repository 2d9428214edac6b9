// Picks the back end for a job, and finishes the job on the next one when a back end does not.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/backends.hpp"
#include "plugin/codec/counters.hpp"
#include "plugin/codec/settings.hpp"

namespace ec::codec {

/// Immutable; any thread may use it at any time.
class Router {
 public:
  /// threshold_bytes: see NodeSettings::threshold_bytes.
  /// backends: best first, the floor last, at most max_backends; counts gets a row for each of them, in that
  /// order. Both must outlive the router.
  Router(BackendChoice choice, std::size_t threshold_bytes,
         std::span<kernels::Backend* const> backends = kernels::backends(), Counters& counts = counters());

  /// Whether this router's policy gives the job to `backend` (the back end itself may still decline).
  ///   auto       the device if no chunk is pageable and the sources have threshold_bytes in all, or if any
  ///              chunk lies on the device; then the CPU back ends in order. A job that only its pageable
  ///              chunks keep from the device is said to kernels::want_pinned().
  ///   gpu        the device first, whatever the residence; then as cpu
  ///   cpu        every CPU back end in order; the device never
  ///   x86        x86, or what follows it where the CPU lacks the instructions
  ///   isal       isal, then reference
  ///   reference  reference only
  /// Device memory is never given to a CPU back end.
  bool admits(const kernels::Backend& backend, const kernels::Job& job) const noexcept;

  /// Goes down the ordered list until a back end finishes the job. Returns ok, or the last status when no
  /// back end could: unsupported, busy, fault or hung (see kernels::Status), which takes chunks in device
  /// memory, or (hung) targets in pinned memory that a device which stopped answering may still write.
  kernels::Status transform(const kernels::Job& job) const noexcept;
  kernels::Status accumulate(const kernels::Job& job) const noexcept;
  /// transform of each job; one back end does them all, so that a device can take them in one go. They are
  /// routed by the first one and by the bytes of all.
  kernels::Status transform_all(std::span<const kernels::Job> jobs) const noexcept;
  /// See kernels::Backend::enqueue: on the device, whatever the policy, since nobody else can.
  kernels::Status enqueue(std::span<const kernels::Job> jobs, void* stream) const noexcept;

  BackendChoice choice() const noexcept { return choice_; }

 private:
  /// What this router's policy says of a back end by its name alone.
  enum class Admission : unsigned char { never, always, by_job };
  Admission admission_of(std::string_view backend) const noexcept;
  bool device_takes(const kernels::Job& job, std::uint64_t source_bytes) const noexcept;
  bool takes(Admission admission, const kernels::Job& job, std::uint64_t source_bytes) const noexcept {
    return admission == Admission::always ||
           (admission == Admission::by_job && device_takes(job, source_bytes));
  }

  /// For jobs like `job` that read source_bytes in all.
  template <class Verb>
  kernels::Status run(const kernels::Job& job, std::uint64_t source_bytes, Verb&& verb) const noexcept;

  BackendChoice choice_;
  std::size_t threshold_bytes_;
  std::span<kernels::Backend* const> backends_;
  std::array<Admission, max_backends> admissions_;  ///< of backends_, so that a call compares no names
  Counters* counts_;
};

}  // namespace ec::codec
