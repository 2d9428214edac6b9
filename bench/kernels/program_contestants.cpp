// The kernels for any matrix on the tensor cores, and those generated for one, as contestants of `ec_bench
// kernels`.
#include <stdexcept>

#include "bench/kernels/kernel_contestant.hpp"
#include "kernels/cuda/generate/generated_program.hpp"
#include "kernels/cuda/generate/nvrtc.hpp"
#include "kernels/cuda/kernels/bit_launch.hpp"
#include "kernels/cuda/kernels/table_launch.hpp"

namespace ec::bench {
namespace {

using kernels::cuda::ChunkViews;
using kernels::cuda::Device;

std::vector<const std::uint8_t*> sources_of(const StripeBatch& batch) {
  return {batch.chunks.begin(), batch.chunks.begin() + batch.sources()};
}

/// A kernel for any matrix, one stripe a launch.
class AnyMatrixContestant : public KernelContestant {
 public:
  explicit AnyMatrixContestant(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  bool supports(const StripeBatch& batch) const override {
    const auto sources = sources_of(batch);
    return batch.stripes == 1 && reach(views(batch, sources)) == batch.chunk_bytes;
  }
  void prepare(const StripeBatch&) override {}
  void launch(const StripeBatch& batch, CUstream stream) override {
    const auto sources = sources_of(batch);
    require(device_->driver(), launch_one(batch.program->matrix(), views(batch, sources), stream),
            "cuLaunchKernel");
  }

 protected:
  virtual std::size_t reach(const ChunkViews& chunks) const = 0;
  virtual CUresult launch_one(const gf::Matrix& matrix, const ChunkViews& chunks, CUstream stream) const = 0;

  std::shared_ptr<Device> device_;

 private:
  static ChunkViews views(const StripeBatch& batch, const std::vector<const std::uint8_t*>& sources) {
    return {sources, batch.chunks.subspan(batch.sources()), batch.chunk_bytes};
  }
};

class TableContestant final : public AnyMatrixContestant {
 public:
  using AnyMatrixContestant::AnyMatrixContestant;
  std::string name() const override { return "table"; }

 private:
  std::size_t reach(const ChunkViews& chunks) const override {
    return kernels::cuda::table_kernel_reach(chunks, kernels::Verb::transform);
  }
  CUresult launch_one(const gf::Matrix& matrix, const ChunkViews& chunks, CUstream stream) const override {
    return kernels::cuda::launch_tables(*device_, matrix, chunks, kernels::Verb::transform, stream);
  }
};

class BitContestant final : public AnyMatrixContestant {
 public:
  using AnyMatrixContestant::AnyMatrixContestant;
  std::string name() const override { return "bits"; }

 private:
  std::size_t reach(const ChunkViews& chunks) const override {
    return kernels::cuda::bit_kernel_reach(*device_, chunks);
  }
  CUresult launch_one(const gf::Matrix& matrix, const ChunkViews& chunks, CUstream stream) const override {
    return kernels::cuda::launch_bits(*device_, matrix, chunks, kernels::Verb::transform, stream);
  }
};

/// One stripe a launch with the addresses in the parameter, or many with the addresses in a table.
class GeneratedContestant final : public KernelContestant {
 public:
  explicit GeneratedContestant(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~GeneratedContestant() override { unload(); }

  std::string name() const override { return "generated"; }
  bool supports(const StripeBatch& batch) const override {
    return kernels::cuda::worth_generating(batch.sources(), batch.targets());
  }
  void prepare(const StripeBatch& batch) override {
    unload();
    using kernels::cuda::ProgramForm;
    const auto form = batch.stripes > 1 ? ProgramForm::batch : ProgramForm::transform;
    const auto compiled = kernels::cuda::compile(
        kernels::cuda::emit(batch.program->matrix(), form, device_->chip()), device_->chip());
    if (!compiled) throw std::runtime_error("NVRTC: " + compiled.log);
    require(device_->driver(),
            device_->load(compiled.cubin.data(), kernels::cuda::entry_point, &module_, &function_),
            "cuModuleLoadData");
  }
  void launch(const StripeBatch& batch, CUstream stream) override {
    const auto sources = sources_of(batch);
    const auto r =
        batch.stripes > 1
            ? kernels::cuda::launch_generated_batch(*device_, function_, batch.device_chunks,
                                                    {{}, {}, batch.chunk_bytes}, batch.stripes, stream)
            : kernels::cuda::launch_generated(
                  *device_, function_, {sources, batch.chunks.subspan(batch.sources()), batch.chunk_bytes},
                  stream);
    require(device_->driver(), r, "cuLaunchKernel");
  }

 private:
  void unload() {
    if (module_ != nullptr) device_->unload(module_);
    module_ = nullptr;
  }

  std::shared_ptr<Device> device_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

}  // namespace

KernelContestants program_contestants(const std::shared_ptr<Device>& device) {
  KernelContestants list;
  list.push_back(std::make_unique<TableContestant>(device));
  list.push_back(std::make_unique<BitContestant>(device));
  if (kernels::cuda::nvrtc_missing().empty()) list.push_back(std::make_unique<GeneratedContestant>(device));
  return list;
}

}  // namespace ec::bench
