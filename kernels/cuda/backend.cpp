#include "kernels/cuda/backend.hpp"

#include <new>

#include "kernels/cuda/device_job.hpp"
#include "kernels/cuda/tile_args.hpp"

namespace ec::kernels::cuda {
namespace {

class Cuda final : public Backend {
 public:
  explicit Cuda(KernelKind kind) : kind_(kind) {}

  std::string_view name() const noexcept override { return backend_name(kind_); }

  bool supports(const Job& job) const noexcept override {
    // At least one row must fit the kernel's parameter with all sources.
    return TileArgs::blob_needed(job.sources.size(), 1) <= TileArgs::blob_bytes;
  }

  Status transform(const Job& job) noexcept override { return run(job, Verb::transform); }
  Status accumulate(const Job& job) noexcept override { return run(job, Verb::accumulate); }

 private:
  Status run(const Job& job, Verb verb) noexcept try {
    if (!supports(job)) return Status::unsupported;
    if (job.bytes == 0 || job.targets.empty()) return Status::ok;
    const auto device = DeviceSlot::instance().acquire();
    if (!device) return host_addressable(job) ? Status::busy : Status::fault;
    const auto outcome = run_job(device, job, verb, kind_);
    if (outcome.status == Status::fault || outcome.status == Status::hung)
      DeviceSlot::instance().latch(device, outcome.reason);
    return outcome.status;
  } catch (const std::bad_alloc&) {
    return Status::busy;
  }

  const KernelKind kind_;
};

}  // namespace

Backend& backend(KernelKind kind) noexcept {
  static Cuda instances[] = {Cuda(KernelKind::automatic), Cuda(KernelKind::tile), Cuda(KernelKind::table),
                             Cuda(KernelKind::bits), Cuda(KernelKind::generated)};
  return instances[static_cast<int>(kind)];
}

std::optional<DeviceInfo> bring_up(std::string* why) {
  const auto device = DeviceSlot::instance().acquire_waiting(why);
  if (!device) return std::nullopt;
  return device->info();
}

}  // namespace ec::kernels::cuda
