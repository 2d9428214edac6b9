// Lines up the product's kernels and the XOR kernel.
#include "bench/gpu/contestants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "bench/gpu/xor_args.hpp"

extern "C" const unsigned char ec_fatbin_xor_kernel[];

namespace ec::bench {
namespace {

void launched(CUresult result) { require(result, "cuLaunchKernel"); }

/// The kernels of the bench's own fat binary, for one device.
class OwnKernels {
 public:
  explicit OwnKernels(std::shared_ptr<Device> device) : device_(std::move(device)) {
    const Device::Scope scope(*device_);
    require(device_->driver().module_load_data(&module_, ec_fatbin_xor_kernel), "cuModuleLoadData");
  }
  ~OwnKernels() {
    const Device::Scope scope(*device_);
    device_->driver().module_unload(module_);
  }
  OwnKernels(const OwnKernels&) = delete;
  OwnKernels& operator=(const OwnKernels&) = delete;

  /// Null if the driver knows no such kernel.
  CUfunction find(const std::string& name) const {
    CUfunction function = nullptr;
    const CUresult result = device_->driver().module_get_function(&function, module_, name.c_str());
    if (result != CUDA_ERROR_NOT_FOUND) require(result, "cuModuleGetFunction");
    return function;
  }
  const Device& device() const { return *device_; }

 private:
  std::shared_ptr<Device> device_;
  CUmodule module_ = nullptr;
};

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

void launch_xor(const OwnKernels& own, const Grid& grid, const DeviceStripe& stripe, CUstream stream) {
  XorArgs args{stripe.chunk_bytes, stripe.program->sources(), stripe.program->targets(), {}};
  std::ranges::transform(stripe.chunks, args.chunks,
                         [](std::uint8_t* p) { return reinterpret_cast<std::uintptr_t>(p); });
  const std::size_t warps = grid.threads / 32;
  const std::size_t tiles = stripe.chunk_bytes / xor_tile;
  const auto multiprocessors = static_cast<std::size_t>(own.device().info().multiprocessors);
  const std::size_t most = grid.waves == 0 ? std::size_t{1} << 30 : grid.waves * multiprocessors;
  const auto blocks = static_cast<unsigned>(std::min((tiles + warps - 1) / warps, most));
  void* parameters[] = {&args};
  launched(own.device().driver().launch_kernel(own.find(xor_kernel(args.sources)), blocks, 1, 1, grid.threads,
                                               1, 1, 0, stream, parameters, nullptr));
}

}  // namespace

DeviceStripe::DeviceStripe(const Stripes& stripes, std::size_t stripe)
    : program(stripes.operation().program), chunk_bytes(stripes.chunk_bytes()) {
  for (const auto& source : stripes.sources(stripe)) chunks.push_back(const_cast<std::uint8_t*>(source.data));
  for (const auto& target : stripes.targets(stripe)) chunks.push_back(target.data);
}

std::vector<Kernel> xor_kernels(const std::shared_ptr<Device>& device) {
  const auto own = std::make_shared<const OwnKernels>(device);
  std::vector<Kernel> list;
  if (own->find("ec_xor_any") == nullptr) return list;
  for (const Grid& grid : grids)
    list.push_back(
        {grid.name, [](const DeviceStripe& s) { return s.chunk_bytes % xor_tile == 0; },
         [own, &grid](const DeviceStripe& s, CUstream stream) { launch_xor(*own, grid, s, stream); }});
  return list;
}

std::vector<Kernel> product_kernels(const std::shared_ptr<Device>& device) {
  using namespace kernels::cuda;
  const auto paired_shape = [device](const DeviceStripe& s) {
    const auto& matrix = s.program->matrix();
    return paired_shape_for(*device, matrix, bit_kernel_steps(matrix));
  };
  std::vector<Kernel> list{
      {"table", [](const DeviceStripe& s) { return table_kernel_reach(s.views(), {}) == s.chunk_bytes; },
       [device](const DeviceStripe& s, CUstream stream) {
         launched(launch_tables(*device, s.program->matrix(), s.views(), {}, stream));
       }},
      {"bits",
       [device](const DeviceStripe& s) { return bit_kernel_reach(*device, s.views()) == s.chunk_bytes; },
       [device](const DeviceStripe& s, CUstream stream) {
         launched(launch_bits(*device, s.program->matrix(), s.views(), {}, stream));
       }},
      {"paired",
       [paired_shape](const DeviceStripe& s) {
         const auto* shape = paired_shape(s);
         return shape != nullptr && paired_kernel_reach(*shape, s.views()) == s.chunk_bytes;
       },
       [device, paired_shape](const DeviceStripe& s, CUstream stream) {
         launched(launch_paired(*device, *paired_shape(s), s.program->matrix(), s.views(), stream));
       }},
      {"generated",
       [device](const DeviceStripe& s) {
         return device->generated_kernel(s.program->matrix()) != nullptr &&
                generated_kernel_reach(s.views()) == s.chunk_bytes;
       },
       [device](const DeviceStripe& s, CUstream stream) {
         const GeneratedKernel* kernel = device->generated_kernel(s.program->matrix());
         launched(launch_generated(*device, kernel->one, s.views(), stream));
       }}};
  return list;
}

}  // namespace ec::bench
