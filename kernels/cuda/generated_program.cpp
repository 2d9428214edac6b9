#include "kernels/cuda/generated_program.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "kernels/cuda/generate/emit.hpp"
#include "kernels/cuda/generate/tuning.hpp"

namespace ec::kernels::cuda {
namespace {

constexpr std::size_t alignment = 16;

}  // namespace

bool worth_generating(const gf::Matrix& matrix) { return worth_generating(matrix.cols(), matrix.rows()); }

const GeneratedProgram* GeneratedProgram::of(const Program& program) {
  return static_cast<const GeneratedProgram*>(
      program.expansion(ExpansionSlot::cuda, [&]() -> std::unique_ptr<GeneratedProgram> {
        try {
          return std::make_unique<GeneratedProgram>(program.matrix());
        } catch (const std::bad_alloc&) {
          return nullptr;
        }
      }));
}

GeneratedProgram::~GeneratedProgram() {
  // No job of this program is in flight: whoever runs one holds the program.
  for (Form& form : forms_)
    if (const auto device = form.device.lock(); device && form.module != nullptr) {
      const Device::Scope scope(*device);
      device->driver().module_unload(form.module);
    }
}

CUfunction GeneratedProgram::function(const std::shared_ptr<Device>& device, ProgramForm program_form,
                                      std::uint64_t source_bytes, Wish wish) const {
  std::lock_guard lock(mutex_);
  coded_bytes_ += source_bytes;
  Form& form = forms_[static_cast<unsigned>(program_form)];
  if (form.function != nullptr && form.device.lock() == device) return form.function;
  if (!form.compilation) {
    if (wish != Wish::now && coded_bytes_ < device->options().generate_after_bytes) return nullptr;
    form.compilation = ProgramCompiler::instance().ask(matrix_, program_form, device->chip());
    if (!form.compilation) return nullptr;
  }
  if (wish == Wish::never) return nullptr;
  if (wish == Wish::now) ProgramCompiler::instance().compile_now(*form.compilation);
  const auto cubin = form.compilation->cubin();
  if (!cubin || form.given_up) return nullptr;
  // The first use on this device, or on the one that came up after a fault.
  form.module = nullptr;
  form.function = nullptr;
  form.device = device;
  const Driver& driver = device->driver();
  if (driver.module_load_data(&form.module, cubin->data()) != CUDA_SUCCESS ||
      driver.module_get_function(&form.function, form.module, entry_point) != CUDA_SUCCESS) {
    form.function = nullptr;
    form.given_up = true;
  }
  return form.function;
}

std::string GeneratedProgram::failure(ProgramForm program_form) const {
  std::lock_guard lock(mutex_);
  const Form& form = forms_[static_cast<unsigned>(program_form)];
  if (form.given_up) return "the driver does not load the program";
  return form.compilation ? form.compilation->failure() : std::string();
}

std::size_t generated_kernel_reach(const ChunkViews& chunks) {
  return chunks.bytes < warp_tile || chunks.alignment() < alignment ? 0 : chunks.bytes;
}

namespace {

/// emit.hpp: what `parameter` holds so far, then bytes, stripes, multipliers.
CUresult launch(const Device& device, CUfunction function, unsigned sources, unsigned targets,
                std::vector<std::uint64_t> parameter, const ChunkViews& each, std::size_t stripes,
                CUstream stream) {
  const std::size_t bytes = each.bytes;
  parameter.push_back(bytes);
  parameter.push_back(stripes);
  const std::size_t words = parameter.size();
  parameter.resize(words + sizeof(multipliers) / 8);
  std::memcpy(parameter.data() + words, multipliers, sizeof(multipliers));

  const unsigned threads = pick_options(sources, targets, device.chip()).emit.threads;
  // A warp a tile: measured ahead of a grid that stays and loops.
  const std::size_t warps = threads / 32;
  const std::size_t tiles = (bytes + warp_tile - 1) / warp_tile * stripes;
  const unsigned blocks = blocks_for(each, (tiles + warps - 1) / warps, threads, warp_tile);
  void* parameters[] = {parameter.data()};
  return device.driver().launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
}

}  // namespace

CUresult launch_generated(const Device& device, CUfunction function, const ChunkViews& chunks,
                          CUstream stream) {
  std::vector<std::uint64_t> parameter;
  for (const auto* p : chunks.sources) parameter.push_back(reinterpret_cast<std::uint64_t>(p));
  for (const auto* p : chunks.targets) parameter.push_back(reinterpret_cast<std::uint64_t>(p));
  return launch(device, function, static_cast<unsigned>(chunks.sources.size()),
                static_cast<unsigned>(chunks.targets.size()), std::move(parameter), chunks, 1, stream);
}

CUresult launch_generated_batch(const Device& device, CUfunction function, const gf::Matrix& matrix,
                                CUdeviceptr table, const ChunkViews& each, std::size_t stripes,
                                CUstream stream) {
  return launch(device, function, matrix.cols(), matrix.rows(), {table}, each, stripes, stream);
}

}  // namespace ec::kernels::cuda
