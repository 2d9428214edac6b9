#include "kernels/cuda/generate/generated_program.hpp"

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

GeneratedProgram::~GeneratedProgram() {
  // No job of this program is in flight: whoever runs one holds the program.
  for (Form& form : forms_)
    for (Loaded& at : form)
      if (const auto device = at.device.lock(); device && at.module != nullptr) {
        const Device::Scope scope(*device);
        device->driver().module_unload(at.module);
      }
}

GeneratedProgram::Loaded& GeneratedProgram::loaded_on(Form& form, const std::shared_ptr<Device>& device) {
  const auto at = std::ranges::find_if(form, [&](const Loaded& l) { return l.device.lock() == device; });
  if (at != form.end()) return *at;
  Loaded fresh;
  fresh.device = device;
  fresh.chip = device->chip();
  for (const Loaded& other : form)
    if (other.chip == fresh.chip) fresh.compilation = other.compilation;
  // The modules of a device that is gone went with it.
  std::erase_if(form, [](const Loaded& l) { return l.device.expired(); });
  return form.emplace_back(std::move(fresh));
}

CUfunction GeneratedProgram::function(const std::shared_ptr<Device>& device, ProgramForm program_form,
                                      std::uint64_t source_bytes, Wish wish) const {
  std::lock_guard lock(mutex_);
  coded_bytes_ += source_bytes;
  Loaded& at = loaded_on(forms_[static_cast<unsigned>(program_form)], device);
  if (at.function != nullptr) return at.function;
  if (!at.compilation) {
    if (wish != Wish::now && coded_bytes_ < device->options().generate_after_bytes) return nullptr;
    at.compilation = ProgramCompiler::instance().ask(matrix_, program_form, at.chip);
    if (!at.compilation) return nullptr;
  }
  if (wish == Wish::never) return nullptr;
  if (wish == Wish::now) ProgramCompiler::instance().compile_now(*at.compilation);
  const auto cubin = at.compilation->cubin();
  if (!cubin || at.given_up) return nullptr;
  const Driver& driver = device->driver();
  const Device::Scope scope(*device);
  if (scope.result() != CUDA_SUCCESS) return nullptr;
  if (driver.module_load_data(&at.module, cubin->data()) != CUDA_SUCCESS ||
      driver.module_get_function(&at.function, at.module, entry_point) != CUDA_SUCCESS) {
    at.function = nullptr;
    at.given_up = true;
  }
  return at.function;
}

std::string GeneratedProgram::failure(ProgramForm program_form) const {
  std::lock_guard lock(mutex_);
  std::string why;
  for (const Loaded& at : forms_[static_cast<unsigned>(program_form)]) {
    if (at.given_up) return "the driver does not load the program";
    if (at.compilation && why.empty()) why = at.compilation->failure();
  }
  return why;
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
