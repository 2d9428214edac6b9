// Programs generated for several devices: each is loaded where it runs, whatever the calling thread was at.
#include <array>
#include <string>

#include "kernels/cuda/generate/generated_program.hpp"
#include "tests/kernels/cuda/emulated.hpp"
#include "tools/device/buffer.hpp"

namespace ec::test {
namespace {

using kernels::Residence;
using kernels::Source;
using kernels::Status;
using kernels::Target;
using kernels::cuda::Buffer;
using kernels::cuda::Device;
using kernels::cuda::Devices;
using kernels::cuda::GeneratedProgram;
using kernels::cuda::KernelKind;

class GeneratedOnTwoDevices : public EmulatedDevices<2> {
 protected:
  void SetUp() override {
    EmulatedDevices::SetUp();
    use_emulated_compiler();
    auto o = options();
    o.devices = {0, 1};
    o.retry_after = std::chrono::seconds(3600);
    use(o);
  }
};

/// As those of many placement groups: one matrix, one kernel on a device.
TEST_F(GeneratedOnTwoDevices, EqualProgramsShareTheirKernels) {
  std::string why;
  const auto device = Devices::instance().acquire_waiting(0, &why);
  ASSERT_TRUE(device) << why;
  const auto kernel_of = [&](std::uint8_t coefficient) {
    gf::Matrix matrix(1, 1);
    matrix(0, 0) = coefficient;
    const kernels::Program program(matrix);
    return GeneratedProgram::of(program)->function(device, kernels::cuda::ProgramForm::transform, 0,
                                                   GeneratedProgram::Wish::now);
  };
  const CUfunction first = kernel_of(1);
  EXPECT_NE(first, nullptr);
  EXPECT_NE(kernel_of(2), first);
  const auto loaded = driver_->calls("cuModuleLoadData");
  EXPECT_EQ(kernel_of(1), first) << "also after its program has gone";
  EXPECT_EQ(driver_->calls("cuModuleLoadData"), loaded);
  for (unsigned c = 3; c < 100; ++c) EXPECT_NE(kernel_of(static_cast<std::uint8_t>(c)), nullptr);
  EXPECT_GT(driver_->calls("cuModuleUnload"), 30u) << "they are bounded";
}

TEST_F(GeneratedOnTwoDevices, AProgramIsLoadedOnItsDeviceWhateverContextIsCurrent) {
  constexpr std::size_t bytes = 8192;
  const kernels::Program program{gf::Matrix(1, 1)};
  std::string why;
  const std::array devices{Devices::instance().acquire_waiting(0, &why),
                           Devices::instance().acquire_waiting(1, &why)};
  ASSERT_TRUE(devices[0] && devices[1]) << why;
  {
    const Device::Scope first(*devices[0]);
    for (const auto& device : devices)
      EXPECT_TRUE(GeneratedProgram::of(program)->function(device, kernels::cuda::ProgramForm::transform, 0,
                                                          GeneratedProgram::Wish::now));
  }
  for (const std::size_t i : {0u, 1u}) {
    const auto memory = Buffer::allocate(2 * bytes, Residence::device, i);
    const Source source{memory.data(), Residence::device};
    const Target target{memory.data() + bytes, Residence::device};
    // The emulated driver runs a kernel only in the context in which it was loaded.
    EXPECT_EQ(kernels::cuda::backend(KernelKind::generated)
                  .transform({&program, {&source, 1}, {&target, 1}, bytes}),
              Status::ok)
        << i;
  }
  EXPECT_EQ(Devices::instance().up(), 2u) << log_;
}

}  // namespace
}  // namespace ec::test
