// What a device must answer before it is given work.
#include <fmt/format.h>

#include <array>

#include "gf/gf256.hpp"
#include "kernels/cuda/submit/device_job.hpp"

namespace ec::kernels::cuda {

bool self_test(const std::shared_ptr<Device>& device, std::string* why) {
  constexpr std::uint8_t coefficient = 0xa7;
  gf::Matrix matrix(1, 1);
  matrix(0, 0) = coefficient;
  const Program program(matrix);
  std::array<std::uint8_t, 256> in;
  std::array<std::uint8_t, 256> out{};
  for (unsigned i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(i);
  const Source source{in.data(), Residence::pageable};
  const Target target{out.data(), Residence::pageable};
  const auto outcome =
      run_job(device, {&program, {&source, 1}, {&target, 1}, in.size()}, Verb::transform, KernelKind::tile);
  if (outcome.status != Status::ok) {
    *why = fmt::format("self-test: {}", outcome.reason.empty() ? name(outcome.status) : outcome.reason);
    return false;
  }
  for (unsigned i = 0; i < in.size(); ++i)
    if (out[i] != gf::mul(coefficient, in[i])) {
      *why = fmt::format("self-test: {} times {} gave {}", coefficient, i, out[i]);
      return false;
    }
  return true;
}

}  // namespace ec::kernels::cuda
