#include "kernels/cuda/backend.hpp"

#include <new>

#include "kernels/cuda/tile_args.hpp"
#include "kernels/cuda/tile_job.hpp"

namespace ec::kernels::cuda {
namespace {

class Cuda final : public Backend {
 public:
  std::string_view name() const noexcept override { return "cuda"; }

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
    const auto outcome = run_tile_job(device, job, verb);
    if (outcome.status == Status::fault || outcome.status == Status::hung)
      DeviceSlot::instance().latch(device, outcome.reason);
    return outcome.status;
  } catch (const std::bad_alloc&) {
    return Status::busy;
  }
};

}  // namespace

Backend& backend() noexcept {
  static Cuda instance;
  return instance;
}

std::optional<DeviceInfo> bring_up(std::string* why) {
  const auto device = DeviceSlot::instance().acquire_waiting(why);
  if (!device) return std::nullopt;
  return device->info();
}

}  // namespace ec::kernels::cuda
