#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "bench/kernels/kernel_contestant.hpp"
#include "bench/kernels/ladder/ladder.hpp"
#include "bench/kernels/ladder/loaded_kernel.hpp"
#include "bench/kernels/xor_args.hpp"

extern "C" const unsigned char ec_fatbin_xor_kernel[];

namespace ec::bench {
namespace {

using kernels::cuda::Device;
namespace ladder = kernels::cuda::ladder;

class RungContestant final : public KernelContestant {
 public:
  RungContestant(std::shared_ptr<Device> device, const ladder::Rung& rung)
      : device_(std::move(device)), rung_(rung) {}

  std::string name() const override { return std::string(rung_.name); }
  bool supports(const StripeBatch& batch) const override { return batch.stripes == 1; }
  void prepare(const StripeBatch&) override {}
  void launch(const StripeBatch& batch, CUstream stream) override {
    const std::vector<const std::uint8_t*> sources(batch.chunks.begin(),
                                                   batch.chunks.begin() + batch.sources());
    require(device_->driver(),
            ladder::launch(*device_, rung_, batch.program->matrix(), sources,
                           batch.chunks.subspan(batch.sources()), batch.chunk_bytes, false, stream),
            "cuLaunchKernel");
  }

 private:
  std::shared_ptr<Device> device_;
  const ladder::Rung& rung_;
};

/// How the tiles are dealt to blocks. waves: blocks of the grid for each multiprocessor; 0: a tile a warp.
struct Grid {
  const char* name;
  unsigned threads;
  unsigned waves;
};

constexpr Grid grids[] = {{"xor", 256, 0}, {"xor-128", 128, 0}, {"xor-strided", 256, 16}};

class XorContestant final : public KernelContestant {
 public:
  XorContestant(std::shared_ptr<Device> device, const Grid& grid) : device_(std::move(device)), grid_(grid) {}

  std::string name() const override { return grid_.name; }
  bool supports(const StripeBatch& batch) const override { return batch.chunk_bytes % xor_tile == 0; }
  void prepare(const StripeBatch& batch) override {
    std::string entry = "ec_xor_any";
#define EC_CHOOSE(k) \
  if (batch.sources() == k) entry = "ec_xor_" #k;
    EC_XOR_SOURCES(EC_CHOOSE)
#undef EC_CHOOSE
    require(device_->driver(),
            ladder::loaded_kernel(*device_, ec_fatbin_xor_kernel, entry.c_str(), &function_),
            "cuModuleLoadData");
  }
  void launch(const StripeBatch& batch, CUstream stream) override {
    XorArgs args{batch.chunk_bytes, batch.stripes, batch.device_chunks, batch.sources(), batch.targets(), {}};
    if (batch.stripes == 1)
      std::ranges::transform(batch.chunks, args.chunks,
                             [](std::uint8_t* p) { return reinterpret_cast<std::uintptr_t>(p); });
    const std::size_t tiles = batch.chunk_bytes / xor_tile * batch.stripes;
    const std::size_t warps = grid_.threads / 32;
    std::size_t blocks = (tiles + warps - 1) / warps;
    const std::size_t most =
        grid_.waves == 0 ? std::size_t{1} << 30
                         : std::size_t{grid_.waves} * static_cast<unsigned>(device_->info().multiprocessors);
    blocks = std::min(blocks, most);
    void* parameters[] = {&args};
    require(device_->driver(),
            device_->driver().launch_kernel(function_, static_cast<unsigned>(blocks), 1, 1, grid_.threads, 1,
                                            1, 0, stream, parameters, nullptr),
            "cuLaunchKernel");
  }

 private:
  std::shared_ptr<Device> device_;
  const Grid& grid_;
  CUfunction function_ = nullptr;
};

}  // namespace

void require(const kernels::cuda::Driver& driver, CUresult result, const char* call) {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(fmt::format("{}: {}", call, driver.error_name(result)));
}

KernelContestants ladder_contestants(const std::shared_ptr<Device>& device) {
  KernelContestants list;
  for (const auto& rung : ladder::rungs()) list.push_back(std::make_unique<RungContestant>(device, rung));
  return list;
}

KernelContestants xor_contestants(const std::shared_ptr<Device>& device) {
  KernelContestants list;
  for (const Grid& grid : grids) list.push_back(std::make_unique<XorContestant>(device, grid));
  return list;
}

KernelContestants kernel_contestants(const std::shared_ptr<Device>& device) {
  KernelContestants all = ladder_contestants(device);
  for (auto& contestant : program_contestants(device)) all.push_back(std::move(contestant));
  return all;
}

}  // namespace ec::bench
