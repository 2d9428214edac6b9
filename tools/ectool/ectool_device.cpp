// Brings the device up, and makes memory on it.
#include "tools/ectool/ectool_device.hpp"

#ifdef EC_WITH_CUDA
#include "kernels/cuda/backend.hpp"
#endif

namespace ec::tools {

std::string device_name([[maybe_unused]] const codec::NodeSettings& node, std::string* why) {
#ifdef EC_WITH_CUDA
  kernels::cuda::configure(node.device);
  kernels::cuda::Reason reason;
  const auto device = kernels::cuda::bring_up(&reason);
  *why = reason.view();
  return device ? device->name : std::string();
#else
  *why = "this build has no GPU back end";
  return {};
#endif
}

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
