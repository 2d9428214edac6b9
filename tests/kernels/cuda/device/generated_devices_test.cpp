// Programs generated for several devices: each is loaded where it runs, whatever the calling thread was at.
#include <array>
#include <string>

#include "kernels/cuda/device/memory.hpp"
#include "kernels/cuda/generate/generated_program.hpp"
#include "tests/kernels/cuda/emulated.hpp"

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
    ASSERT_NE(open_emulated_compiler(), nullptr) << dlerror();
    auto o = options();
    o.devices = {0, 1};
    o.retry_after = std::chrono::seconds(3600);
    use(o);
  }
};

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
