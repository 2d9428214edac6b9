// Kernels compiled for one matrix.
#include "kernels/cuda/generate/generated_program.hpp"

#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace ec::kernels::cuda {
namespace {

constexpr std::size_t alignment = 16;

}  // namespace

const GeneratedProgram* GeneratedProgram::of(const Program& program) {
  if (!program.may_be_compiled()) return nullptr;
  return static_cast<const GeneratedProgram*>(
      program.expansion(ExpansionSlot::cuda, [&]() -> std::unique_ptr<GeneratedProgram> {
        try {
          return std::make_unique<GeneratedProgram>(program.matrix());
        } catch (const std::bad_alloc&) {
          return nullptr;
        }
      }));
}

CUfunction GeneratedProgram::function(const std::shared_ptr<Device>& device, ProgramForm form,
                                      std::uint64_t source_bytes, Wish wish) const {
  std::unique_lock lock(mutex_);
  coded_bytes_ += source_bytes;
  const GeneratedKernel* kernel = kernel_locked(device, form, wish);
  lock.unlock();
  if (kernel == nullptr) return nullptr;
  // It stays where it is while its device is there.
  if (wish == Wish::now) kernel->wait();
  return kernel->function();
}

const GeneratedKernel* GeneratedProgram::kernel_locked(const std::shared_ptr<Device>& device,
                                                       ProgramForm form, Wish wish) const try {
  for (const auto& kernel : kernels_)
    if (kernel->is_for(form, device)) return kernel.get();
  if (wish == Wish::never) return nullptr;
  if (wish == Wish::later && coded_bytes_ < device->options().generate_after_bytes) return nullptr;
  std::erase_if(kernels_, [](const auto& kernel) { return kernel->device_is_gone(); });
  kernels_.reserve(kernels_.size() + 1);
  auto asked = ProgramCompiler::instance().ask(matrix_, form, device);
  return asked ? kernels_.emplace_back(std::move(asked)).get() : nullptr;
} catch (const std::bad_alloc&) {
  return nullptr;
}

std::string GeneratedProgram::failure(ProgramForm form) const {
  std::lock_guard lock(mutex_);
  for (const auto& kernel : kernels_)
    if (std::string why = kernel->failure(); kernel->form() == form && !why.empty()) return why;
  return {};
}

std::size_t generated_kernel_reach(const ChunkViews& chunks) {
  return chunks.bytes < warp_tile || chunks.alignment() < alignment ? 0 : chunks.bytes;
}

namespace {

/// emit.hpp: what `parameter` holds so far, then bytes, stripes, multipliers.
CUresult launch(const Device& device, CUfunction function, std::vector<std::uint64_t> parameter,
                const ChunkViews& each, std::size_t stripes, CUstream stream) {
  const std::size_t bytes = each.bytes;
  parameter.push_back(bytes);
  parameter.push_back(stripes);
  const std::size_t words = parameter.size();
  parameter.resize(words + sizeof(multipliers) / 8);
  std::memcpy(parameter.data() + words, multipliers, sizeof(multipliers));

  // A warp a tile: measured ahead of a grid that stays and loops.
  constexpr std::size_t warps = block_threads / 32;
  const std::size_t tiles = (bytes + warp_tile - 1) / warp_tile * stripes;
  const unsigned blocks = blocks_for(each, (tiles + warps - 1) / warps, block_threads, warp_tile);
  void* parameters[] = {parameter.data()};
  return device.driver().launch_kernel(function, blocks, 1, 1, block_threads, 1, 1, 0, stream, parameters,
                                       nullptr);
}

}  // namespace

CUresult launch_generated(const Device& device, CUfunction function, const ChunkViews& chunks,
                          CUstream stream) {
  std::vector<std::uint64_t> parameter;
  for (const auto* p : chunks.sources) parameter.push_back(reinterpret_cast<std::uint64_t>(p));
  for (const auto* p : chunks.targets) parameter.push_back(reinterpret_cast<std::uint64_t>(p));
  return launch(device, function, std::move(parameter), chunks, 1, stream);
}

CUresult launch_generated_batch(const Device& device, CUfunction function, CUdeviceptr table,
                                const ChunkViews& each, std::size_t stripes, CUstream stream) {
  return launch(device, function, {table}, each, stripes, stream);
}

}  // namespace ec::kernels::cuda
