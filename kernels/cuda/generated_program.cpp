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

CUfunction GeneratedProgram::function(const std::shared_ptr<Device>& device, bool accumulate,
                                      std::uint64_t source_bytes, bool wait) const {
  std::lock_guard lock(mutex_);
  coded_bytes_ += source_bytes;
  Form& form = forms_[accumulate ? 1 : 0];
  if (form.function != nullptr && form.device.lock() == device) return form.function;
  if (!form.compilation) {
    if (!wait && coded_bytes_ < device->options().generate_after_bytes) return nullptr;
    form.compilation = ProgramCompiler::instance().ask(matrix_, accumulate, device->chip());
    if (!form.compilation) return nullptr;
  }
  if (wait) ProgramCompiler::instance().compile_now(*form.compilation);
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

std::string GeneratedProgram::failure(bool accumulate) const {
  std::lock_guard lock(mutex_);
  const Form& form = forms_[accumulate ? 1 : 0];
  if (form.given_up) return "the driver does not load the program";
  return form.compilation ? form.compilation->failure() : std::string();
}

std::size_t generated_kernel_reach(const ChunkViews& chunks) {
  return chunks.bytes < warp_tile || chunks.alignment() < alignment ? 0 : chunks.bytes;
}

CUresult launch_generated(const Device& device, CUfunction function, const ChunkViews& chunks,
                          CUstream stream) {
  // emit.hpp: addresses of sources and targets, bytes, stripes, multipliers.
  std::vector<std::uint64_t> parameter;
  for (const auto* p : chunks.sources) parameter.push_back(reinterpret_cast<std::uint64_t>(p));
  for (const auto* p : chunks.targets) parameter.push_back(reinterpret_cast<std::uint64_t>(p));
  parameter.push_back(chunks.bytes);
  parameter.push_back(1);
  const std::size_t words = parameter.size();
  parameter.resize(words + sizeof(multipliers) / 8);
  std::memcpy(parameter.data() + words, multipliers, sizeof(multipliers));

  const unsigned threads = pick_options(static_cast<unsigned>(chunks.sources.size()),
                                        static_cast<unsigned>(chunks.targets.size()), device.chip())
                               .emit.threads;
  // A warp a tile: measured ahead of a grid that stays and loops.
  const std::size_t block_bytes = std::size_t{warp_tile} * (threads / 32);
  constexpr std::size_t most_blocks = std::size_t{1} << 30;
  const auto blocks =
      static_cast<unsigned>(std::min((chunks.bytes + block_bytes - 1) / block_bytes, most_blocks));
  void* parameters[] = {parameter.data()};
  return device.driver().launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
}

}  // namespace ec::kernels::cuda
