// Picks the back end for a job, and finishes the job on the next one when a back end does not.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/backends.hpp"
#include "plugin/codec/checking/validator.hpp"
#include "plugin/codec/routing/cost_model.hpp"
#include "plugin/codec/routing/cpu_load.hpp"
#include "plugin/codec/routing/experience.hpp"
#include "plugin/codec/settings/settings.hpp"
#include "plugin/codec/stats/counters.hpp"

namespace ec::codec {

/// The chunk of a call that is nearest to the host and the one nearest to the device.
struct ResidenceRange {
  kernels::Residence nearest_host = kernels::Residence::device;
  kernels::Residence nearest_device = kernels::Residence::pageable;

  void add(kernels::Residence r) {
    nearest_host = std::min(nearest_host, r);
    nearest_device = std::max(nearest_device, r);
  }
};

/// Whether a call is offered to the device, and why.
struct Decision {
  enum class Reason : unsigned char {
    on_device,        ///< a chunk lies there
    forced,           ///< by the choice of back end, to the device or away from it
    threshold,        ///< by EC_CUDA_THRESHOLD
    pageable_stays,   ///< a chunk is pageable, and the table has no costs for that
    predicted_faster  ///< or not, by device_us and cpu_us, which no other reason sets
  };
  bool device = false;
  Reason reason = Reason::forced;
  double device_us = 0;
  double cpu_us = 0;
};

/// Immutable; any thread may use it at any time.
class Router {
 public:
  /// The device must be so much faster to get pageable chunks: several cores copy them, where one codes.
  /// Alone it takes 0.80 to 1.01 of the CPU's time from 1 MiB on (bench/results/host-h200-slower-link.json).
  static constexpr double pageable_margin = 1.05;
  /// And so much where other calls that are compared are under way, which want those cores and the memory's
  /// bandwidth. With eight threads it takes 1.10 to 2.31 of the CPU's time from 256 KiB on (the same report).
  static constexpr double pageable_margin_in_company = 2;

  /// threshold_bytes, costs: see NodeSettings.
  /// backends: best first, the floor last, at most max_backends; counts gets a row for each of them, in that
  /// order. load: of the cores. experience: what corrects the costs; null: nothing does. All of them must
  /// outlive the router.
  Router(BackendChoice choice, std::optional<std::size_t> threshold_bytes,
         const CostTable& costs = default_costs(),
         std::span<kernels::Backend* const> backends = kernels::backends(), Counters& counts = counters(),
         Validator& validator = no_validation(), CpuLoad& load = cpu_load(),
         Experience* experience = &codec::experience());

  /// Whether this router's policy gives the job to `backend` (the back end itself may still decline).
  ///   auto       the device if any chunk lies there, or if no chunk is pageable and the device is predicted
  ///              to finish before the CPU, with what it has in hand now; or, where a threshold is set, if no
  ///              chunk is pageable and the sources have that many bytes in all; then the CPU back ends in
  ///              order. Pageable chunks are compared too if the table has costs for them on the device. A
  ///              job that only its pageable chunks keep from the device is said to kernels::want_pinned().
  ///   gpu        the device first, whatever the residence; then as cpu
  ///   cpu        every CPU back end in order; the device never
  ///   x86        x86, or what follows it where the CPU lacks the instructions
  ///   isal       isal, then reference
  ///   reference  reference only
  /// Device memory is never given to a CPU back end. Calls themselves count with the load of the cores too,
  /// with others that are compared meanwhile and not brief, and with what calls like them took lately; a few
  /// of those that are close go to the second best.
  bool admits(const kernels::Backend& backend, const kernels::Job& job) const noexcept;

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

  /// What a call of this form would be answered, with `jobs_on_device` calls under way there, cores on which
  /// work takes cpu_stretch times as long as on free ones, and `others` calls under way that are compared, on
  /// the device or not. Allocates nothing and takes no lock: this is what every call asks.
  Decision decide(const Work& work, ResidenceRange lie, unsigned jobs_on_device, double cpu_stretch = 1,
                  unsigned others = 0) const noexcept;

  BackendChoice choice() const noexcept { return choice_; }

 private:
  /// What this router's policy says of a back end by its name alone.
  enum class Admission : unsigned char { never, always, by_job };
  Admission admission_of(std::string_view backend) const noexcept;
  /// Calls that are under way on the device that gets the next one, as far as they are evenly spread.
  unsigned queue() const noexcept;
  /// Whether a call goes to the device as things are now, and if it is learned from, what was predicted.
  struct Offer {
    bool device = false;
    bool trial = false;
    bool lesson = false;
    double device_us = 0;  ///< with the queue of the device and, if cores copy, their load
    double cpu_us = 0;     ///< on a core of its own
    Road road = Road::device_pinned;
    CallKind kind{};
  };
  /// Marks one that is compared as under way, unless it is brief.
  Offer offer(const kernels::Job& job, std::size_t stripes, bool accumulate,
              std::optional<Experience::UnderWay>& under_way) const noexcept;
  /// By what was predicted, how busy the cores are, and what calls of that kind took; now and then a trial.
  Offer compare(const Decision& predicted, const Work& work, const ResidenceRange& lie,
                unsigned others) const noexcept;
  /// Whether the CPU has finished the job before the device has begun, whatever the load. A product and a
  /// sum, for calls of less than a microsecond.
  bool is_short(const kernels::Job& job, bool accumulate) const noexcept;
  /// `code` does the call, on the device or not; what it takes is learned if it ends well. call: null if it
  /// is brief.
  template <class Code>
  kernels::Status timed(const Offer& offer, bool device, const Experience::UnderWay* call,
                        Code&& code) const noexcept;

  /// `code` has a back end do the call, which reads source_bytes in all and is counted as `operation`.
  template <class Code>
  kernels::Status run(const Call& call, Operation operation, std::uint64_t source_bytes,
                      Code&& code) const noexcept;

  BackendChoice choice_;
  std::optional<std::size_t> threshold_bytes_;
  const CostTable* costs_;
  std::span<kernels::Backend* const> backends_;
  std::array<Admission, max_backends> admissions_;  ///< of backends_, so that a call compares no names
  std::array<bool, max_backends> watched_;          ///< by the validator
  Counters* counts_;
  Validator* validator_;
  CpuLoad* load_;
  Experience* experience_;
  double short_us_;  ///< the CPU's bytes of a call that is_short() take less
};

}  // namespace ec::codec
