// The back end at the seam: the choice of a device for a job, and the status of a job that fails. The options
// of the device room.
#include "kernels/cuda/backend.hpp"

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "kernels/cuda/device/devices.hpp"
#include "kernels/cuda/submit/device_job.hpp"

namespace ec::kernels::cuda {
namespace {

struct Configured {
  Options options;
  const Configured* before = nullptr;  // kept, since a reader may still hold it
};

/// No lock: a child of fork() would have to wait for the thread that held it.
std::atomic<const Configured*> last_configured{new Configured};

class Cuda final : public Backend {
 public:
  explicit Cuda(KernelKind kind) : kind_(kind) {}

  std::string_view name() const noexcept override { return backend_name(kind_); }
  BackendKind kind() const noexcept override { return BackendKind::device; }

  bool supports(const Job& job) const noexcept override {
    // At least one row must fit the kernel's parameter with all sources.
    static_assert(KernelArgs::fit(gf::max_chunks, 1));
    return job.sources.size() <= gf::max_chunks && job.targets.size() <= gf::max_chunks;
  }

  Status code(const Job& job, Verb verb) noexcept override { return run({&job, 1}, verb); }
  Status transform_all(std::span<const Job> jobs) noexcept override { return run(jobs, Verb::transform); }

  Status enqueue(std::span<const Job> jobs, Verb verb, void* stream) noexcept override {
    if (!supports_all(jobs) || !std::ranges::all_of(jobs, in_place)) return Status::unsupported;
    if (jobs.empty()) return Status::ok;
    return run_on(stream, jobs, verb, nullptr);
  }

  Status compare(std::span<const Job> jobs, unsigned long long* difference,
                 const std::optional<void*>& stream) noexcept override {
    if (!supports(jobs.front())) return Status::unsupported;
    if (stream) return run_on(*stream, jobs, Verb::compare, difference);
    return run(device_for(jobs), jobs,
               [&](Device& device) { return settle(device, run_compare(device, jobs, kind_, difference)); });
  }

 private:
  static bool worth_a_launch(const Job& job) { return job.bytes != 0 && !job.targets.empty(); }

  Status run(std::span<const Job> jobs, Verb verb) noexcept {
    if (!supports_all(jobs)) return Status::unsupported;
    if (std::ranges::none_of(jobs, worth_a_launch)) return Status::ok;
    return run(device_for(jobs), jobs, [&](Device& device) {
      if (are_batch(jobs)) return settle(device, run_batch(device, jobs, verb, kind_));
      Outcome outcome;
      for (std::size_t i = 0; i < jobs.size() && outcome.status == Status::ok; ++i)
        if (worth_a_launch(jobs[i])) outcome = run_job(device, jobs[i], verb, kind_);
      return settle(device, outcome);
    });
  }

  /// A stream of the caller that is captured, or another device's, is no fault of the device.
  static bool is_of_stream(CUresult answer) {
    return answer == CUDA_ERROR_INVALID_HANDLE || (answer >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
                                                   answer <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }

  /// Every device has default streams, so there the memory decides; else the device of `stream`.
  Status run_on(void* stream, std::span<const Job> jobs, Verb verb, unsigned long long* difference) noexcept {
    const auto of = static_cast<CUstream>(stream);
    const bool by_memory =
        of == nullptr || of == CU_STREAM_LEGACY || of == CU_STREAM_PER_THREAD || device_count() == 1;
    Devices& devices = Devices::instance();
    const Claim claim(by_memory ? devices.holder_of(jobs, difference) : devices.owner_of(of));
    Device* const device = claim.device().get();
    if (device == nullptr) return Status::unsupported;
    const Outcome outcome = cuda::enqueue(*device, jobs, verb, kind_, of, difference);
    return is_of_stream(outcome.answer) ? outcome.status : settle(*device, outcome);
  }

  /// A job that needs a device waits until the device is up.
  static Claim device_for(std::span<const Job> jobs) {
    if (std::ranges::all_of(jobs, host_addressable))
      return Devices::instance().acquire(jobs.size() * jobs.front().bytes * jobs.front().sources.size());
    return Claim(Devices::instance().holder_of(jobs));
  }

  /// `submit` on the device of the claim, for these jobs. It allocates nothing.
  static Status run(const Claim& claim, std::span<const Job> jobs, auto&& submit) noexcept {
    if (Device* const device = claim.device().get()) return submit(*device);
    return std::ranges::all_of(jobs, host_addressable) ? Status::busy : Status::unsupported;
  }

  const KernelKind kind_;
};

}  // namespace

Backend& backend(KernelKind kind) noexcept {
  static_assert(std::is_trivially_destructible_v<Cuda>);
  static Cuda instances[] = {Cuda(KernelKind::automatic), Cuda(KernelKind::tile),
                             Cuda(KernelKind::table),     Cuda(KernelKind::bits),
                             Cuda(KernelKind::paired),    Cuda(KernelKind::generated)};
  return instances[static_cast<int>(kind)];
}

void configure(const Options& options) {
  auto* configured = new Configured{options, last_configured.load(std::memory_order_relaxed)};
  while (!last_configured.compare_exchange_weak(configured->before, configured, std::memory_order_release)) {
  }
}

const Options& current_options() noexcept { return last_configured.load(std::memory_order_acquire)->options; }

bool bring_up(Reason* why) noexcept { return Devices::instance().acquire_waiting(why) != nullptr; }

}  // namespace ec::kernels::cuda
