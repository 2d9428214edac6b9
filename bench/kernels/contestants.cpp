// Lines up the product's kernels and the XOR kernel.
#include "bench/kernels/contestants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "bench/kernels/xor_args.hpp"
#include "kernels/cuda/generate/generated_program.hpp"
#include "kernels/cuda/generate/nvrtc.hpp"
#include "kernels/cuda/kernels/launches.hpp"

extern "C" const unsigned char ec_fatbin_xor_kernel[];

namespace ec::bench {
namespace {

using kernels::cuda::ChunkViews;
using kernels::cuda::GeneratedProgram;
using kernels::cuda::ProgramForm;

void launched(CUresult result) { require(result, "cuLaunchKernel"); }

KernelContestant table_contestant(const std::shared_ptr<Device>& device) {
  return {"table",
          [](const StripeBatch& b) {
            return b.stripes == 1 && kernels::cuda::table_kernel_reach(b.only_stripe(), {}) == b.chunk_bytes;
          },
          [device](const StripeBatch& b, CUstream stream) {
            launched(kernels::cuda::launch_tables(*device, b.program->matrix(), b.only_stripe(), {}, stream));
          }};
}

KernelContestant bit_contestant(const std::shared_ptr<Device>& device) {
  return {"bits",
          [device](const StripeBatch& b) {
            return b.stripes == 1 &&
                   kernels::cuda::bit_kernel_reach(*device, b.only_stripe()) == b.chunk_bytes;
          },
          [device](const StripeBatch& b, CUstream stream) {
            launched(kernels::cuda::launch_bits(*device, b.program->matrix(), b.only_stripe(), {}, stream));
          }};
}

KernelContestant paired_contestant(const std::shared_ptr<Device>& device) {
  const auto shape_for = [device](const StripeBatch& b) {
    return kernels::cuda::paired_shape_for(*device, b.program->matrix(),
                                           kernels::cuda::bit_kernel_steps(b.program->matrix()));
  };
  return {"paired",
          [shape_for](const StripeBatch& b) {
            const auto* shape = b.stripes == 1 ? shape_for(b) : nullptr;
            return shape != nullptr &&
                   kernels::cuda::paired_kernel_reach(*shape, b.only_stripe()) == b.chunk_bytes;
          },
          [device, shape_for](const StripeBatch& b, CUstream stream) {
            launched(kernels::cuda::launch_paired(*device, *shape_for(b), b.program->matrix(),
                                                  b.only_stripe(), stream));
          }};
}

/// One stripe a launch with the addresses in the parameter, or many with the addresses in a table.
KernelContestant generated_contestant(const std::shared_ptr<Device>& device) {
  return {"generated",
          [](const StripeBatch& b) { return kernels::cuda::worth_generating(b.sources(), b.targets()); },
          [device](const StripeBatch& b, CUstream stream) {
            const bool many = b.stripes > 1;
            const auto form = many ? ProgramForm::batch : ProgramForm::transform;
            const auto* generated = GeneratedProgram::of(*b.program);
            if (generated == nullptr) throw std::runtime_error("no memory for a generated kernel");
            CUfunction function = generated->function(device, form, 0, GeneratedProgram::Wish::now);
            if (function == nullptr)
              throw std::runtime_error("no generated kernel: " + generated->failure(form));
            const ChunkViews each{{}, {}, b.chunk_bytes};
            launched(many ? kernels::cuda::launch_generated_batch(*device, function, b.device_chunks, each,
                                                                  b.stripes, stream)
                          : kernels::cuda::launch_generated(*device, function, b.only_stripe(), stream));
          }};
}

/// How the tiles are dealt to blocks. waves: blocks of the grid for each multiprocessor; 0: a tile a warp.
struct Grid {
  const char* name;
  unsigned threads;
  unsigned waves;
};

constexpr Grid grids[] = {{"xor", 256, 0}, {"xor-128", 128, 0}, {"xor-strided", 256, 16}};

std::string xor_kernel(unsigned sources) {
#define EC_CHOOSE(k) \
  if (sources == k) return "ec_xor_" #k;
  EC_XOR_SOURCES(EC_CHOOSE)
#undef EC_CHOOSE
  return "ec_xor_any";
}

void launch_xor(GpuKernels& kernels, const Grid& grid, const StripeBatch& batch, CUstream stream) {
  XorArgs args{batch.chunk_bytes, batch.stripes, batch.device_chunks, batch.sources(), batch.targets(), {}};
  if (batch.stripes == 1)
    std::ranges::transform(batch.chunks, args.chunks,
                           [](std::uint8_t* p) { return reinterpret_cast<std::uintptr_t>(p); });
  const std::size_t tiles = batch.chunk_bytes / xor_tile * batch.stripes;
  const std::size_t warps = grid.threads / 32;
  const auto multiprocessors = static_cast<std::size_t>(kernels.device().info().multiprocessors);
  const std::size_t most = grid.waves == 0 ? std::size_t{1} << 30 : grid.waves * multiprocessors;
  const auto blocks = static_cast<unsigned>(std::min((tiles + warps - 1) / warps, most));
  kernels.launch(ec_fatbin_xor_kernel, xor_kernel(batch.sources()), {blocks, 1}, {grid.threads, 1}, 0, &args,
                 stream);
}

}  // namespace

std::vector<KernelContestant> xor_contestants(const std::shared_ptr<GpuKernels>& kernels) {
  std::vector<KernelContestant> list;
  if (kernels->find(ec_fatbin_xor_kernel, "ec_xor_any") == nullptr) return list;
  for (const Grid& grid : grids)
    list.push_back(
        {grid.name, [](const StripeBatch& b) { return b.chunk_bytes % xor_tile == 0; },
         [kernels, &grid](const StripeBatch& b, CUstream stream) { launch_xor(*kernels, grid, b, stream); }});
  return list;
}

std::vector<KernelContestant> product_contestants(const std::shared_ptr<Device>& device) {
  std::vector<KernelContestant> list{table_contestant(device), bit_contestant(device),
                                     paired_contestant(device)};
  if (kernels::cuda::nvrtc_missing().empty()) list.push_back(generated_contestant(device));
  return list;
}

}  // namespace ec::bench
