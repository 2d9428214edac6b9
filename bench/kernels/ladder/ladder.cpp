#include "bench/kernels/ladder/ladder.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "kernels/cuda/device/devices.hpp"
#include "kernels/cuda/kernels/bit_launch.hpp"
#include "kernels/cuda/kernels/tile_args.hpp"
#include "kernels/cuda/submit/device_job.hpp"

namespace ec::kernels::cuda::ladder {
namespace {

CUresult launch_rows(Device& device, const Rung& rung, const gf::Matrix& matrix, unsigned first_row,
                     std::span<const std::uint8_t* const> sources, std::span<std::uint8_t* const> targets,
                     std::size_t bytes, bool accumulate, CUstream stream) {
  TileArgs args;
  args.bytes = bytes;
  args.sources = static_cast<std::uint32_t>(sources.size());
  args.targets = static_cast<std::uint32_t>(targets.size());
  args.accumulate = accumulate;
  const ChunkViews chunks{sources, targets, bytes};
  fill_blob(args.blob, chunks, matrix, first_row);
  const LaunchShape s =
      rung.choose({bytes, args.sources, args.targets, chunks.alignment(), device.info().multiprocessors});
  args.tile_depth = s.depth;
  CUfunction function = nullptr;
  if (const auto r = device.function(rung.image, s.function, &function); r != CUDA_SUCCESS) return r;
  void* parameters[] = {&args};
  return device.driver().launch_kernel(function, s.grid_x, s.grid_y, 1, s.block_x, s.block_y, 1,
                                       static_cast<unsigned>(s.shared_bytes), stream, parameters, nullptr);
}

class RungBackend final : public Backend {
 public:
  explicit RungBackend(const Rung& rung)
      : rung_(rung),
        launcher_([&rung](Device& device, const gf::Matrix& matrix, auto sources, auto targets,
                          std::size_t bytes, Verb verb, CUstream stream) {
          return launch(device, rung, matrix, sources, targets, bytes, verb == Verb::accumulate, stream);
        }) {}

  std::string_view name() const noexcept override { return rung_.name; }
  bool supports(const Job& job) const noexcept override {
    return TileArgs::blob_needed(job.sources.size(), 1) <= TileArgs::blob_bytes;
  }
  Status transform(const Job& job) noexcept override { return run(job, Verb::transform); }
  Status accumulate(const Job& job) noexcept override { return run(job, Verb::accumulate); }

 private:
  Status run(const Job& job, Verb verb) noexcept try {
    if (!supports(job)) return Status::unsupported;
    if (job.bytes == 0 || job.targets.empty()) return Status::ok;
    const std::shared_ptr<Device> device = Devices::instance().acquire(0);
    if (!device) return host_addressable(job) ? Status::busy : Status::fault;
    const auto outcome = run_job(device, job, verb, KernelKind::tile, &launcher_);
    if (outcome.status == Status::fault || outcome.status == Status::hung)
      Devices::instance().latch(device, outcome.reason);
    return outcome.status;
  } catch (const std::bad_alloc&) {
    return Status::busy;
  }

  const Rung& rung_;
  const Launcher launcher_;
};

}  // namespace

CUresult launch(Device& device, const Rung& rung, const gf::Matrix& matrix,
                std::span<const std::uint8_t* const> sources, std::span<std::uint8_t* const> targets,
                std::size_t bytes, bool accumulate, CUstream stream) {
  const std::size_t rows = targets.size();
  std::size_t most = rows;
  while (TileArgs::blob_needed(sources.size(), most) > TileArgs::blob_bytes) --most;
  for (std::size_t first = 0; first < rows; first += most) {
    const auto group = targets.subspan(first, std::min(most, rows - first));
    if (const auto r = launch_rows(device, rung, matrix, static_cast<unsigned>(first), sources, group, bytes,
                                   accumulate, stream);
        r != CUDA_SUCCESS)
      return r;
  }
  return CUDA_SUCCESS;
}

std::span<Backend* const> backends() noexcept {
  static const auto owned = [] {
    std::vector<std::unique_ptr<Backend>> list;
    for (const Rung& rung : rungs()) list.push_back(std::make_unique<RungBackend>(rung));
    return list;
  }();
  static const auto list = [] {
    std::vector<Backend*> pointers;
    for (const auto& backend : owned) pointers.push_back(backend.get());
    return pointers;
  }();
  return list;
}

}  // namespace ec::kernels::cuda::ladder
