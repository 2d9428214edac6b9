// Brings the device up, and makes memory on it.
#include "tools/ectool/ectool_device.hpp"

#include <exception>

#include "tools/ectool/ectool_doctor.hpp"
#include "tools/ectool/printable.hpp"

#ifdef EC_WITH_CUDA
#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device/driver.hpp"
#include "kernels/cuda/generate/nvrtc.hpp"
#endif

namespace ec::tools {

std::string device_name([[maybe_unused]] const codec::NodeSettings& node, std::string* why) {
#ifdef EC_WITH_CUDA
  kernels::cuda::configure(node.device);
  const auto device = kernels::cuda::bring_up(why);
  return device ? device->name : std::string();
#else
  *why = "this build has no GPU back end";
  return {};
#endif
}

#ifdef EC_WITH_CUDA
void fill_probe(Probe* probe) try {
  const auto& driver = kernels::cuda::Driver::open(kernels::cuda::Options().driver_library);
  probe->no_compiler = kernels::cuda::nvrtc_missing();
  int count = 0;
  CUresult result = driver.init(0);
  if (result == CUDA_SUCCESS) result = driver.device_get_count(&count);
  if (driver.driver_get_version != nullptr) driver.driver_get_version(&probe->cuda);
  for (int i = 0; i < count && result == CUDA_SUCCESS; ++i) {
    std::string name(256, '\0');
    CUdevice device = 0;
    result = driver.device_get(&device, i);
    if (result == CUDA_SUCCESS)
      result = driver.device_get_name(name.data(), static_cast<int>(name.size()), device);
    name.resize(name.find('\0'));
    make_printable(name);
    probe->gpus.push_back(name);
  }
  probe->failure = result != CUDA_SUCCESS ? driver.error_name(result) : count == 0 ? "there is no GPU" : "";
} catch (const std::exception& e) {
  probe->failure = e.what();
}
#else
void fill_probe(Probe* probe) { probe->failure = "this build has no GPU back end"; }
#endif

Chunks::Chunks(std::size_t count, std::size_t bytes, kernels::Residence residence)
    : bytes_(bytes), stride_(bytes + 256), memory_(residence, count * stride_) {
  std::vector<std::uint8_t> content(memory_.size());
  for (std::size_t i = 0; i < content.size(); ++i)
    content[i] = static_cast<std::uint8_t>((i * std::uint64_t{0x9e3779b97f4a7c15}) >> 56);
  memory_.write(memory_.data(), content);
}

std::vector<std::uint8_t> Chunks::read(std::size_t i) const {
  std::vector<std::uint8_t> bytes(bytes_);
  memory_.read(address(i), bytes);
  return bytes;
}

}  // namespace ec::tools
