// The same calls where the node's back end is the GPU: all work goes to the emulated device, and at the end
// of a run no other back end may have done any.
#include "tests/fuzz/calls_fuzz.cpp"

#include "kernels/backends.hpp"
#include "kernels/cuda/backend.hpp"
#include "plugin/codec/stats/stats.hpp"

namespace ec::fuzz {
namespace {

void check_who_coded() {
  const auto list = kernels::backends();
  std::uint64_t on_device = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto counts = codec::sum(codec::stats().page()).all(i);
    const bool is_device = list[i]->kind() == kernels::BackendKind::device;
    if (is_device) on_device += counts.calls;
    expect(is_device ? counts.fell_back() == 0 : counts.calls == 0, "no job left to {}", list[i]->name());
  }
  expect(on_device > 0, "jobs on the device");
}

}  // namespace
}  // namespace ec::fuzz

extern "C" int LLVMFuzzerInitialize(int* /*count*/, char*** /*arguments*/) {
  using namespace ec::kernels;
  setenv("EC_CUDA_BACKEND", "gpu", 1);
  cuda::Options options;
  options.driver_library = EC_EMULATED_DRIVER;
  // Slices are short.
  options.staging_bytes = std::size_t{1} << 20;
  cuda::configure(options);
  // A device that only comes up answers busy.
  cuda::Reason why;
  ec::fuzz::expect(cuda::bring_up(&why), "a device: {}", why.view());
  std::atexit(ec::fuzz::check_who_coded);
  return 0;
}
