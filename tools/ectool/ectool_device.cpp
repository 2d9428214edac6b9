// Brings the device up, and makes memory on it.
#include "tools/ectool/ectool_device.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "kernels/transfer.hpp"
#ifdef EC_WITH_CUDA
#include "kernels/cuda/backend.hpp"
#endif

namespace ec::tools {

using kernels::Residence;

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

Chunks::Chunks(std::size_t count, std::size_t bytes, Residence residence)
    : bytes_(bytes), stride_(bytes + 256), residence_(residence), host_(count * stride_) {
  for (std::size_t i = 0; i < host_.size(); ++i)
    host_[i] = static_cast<std::uint8_t>((i * std::uint64_t{0x9e3779b97f4a7c15}) >> 56);
  base_ = host_.data();
  if (residence == Residence::pageable) return;
  bool placed = false;
#ifdef EC_WITH_CUDA
  buffer_ = kernels::cuda::Buffer::allocate(host_.size(), residence);
  placed = buffer_ && buffer_.upload(0, host_.data(), host_.size());
  base_ = buffer_.data();
#endif
  if (!placed)
    throw std::runtime_error(fmt::format("no {} bytes of {} memory", host_.size(), kernels::name(residence)));
}

std::vector<std::uint8_t> Chunks::read(std::size_t i) const {
  std::vector<std::uint8_t> bytes(bytes_);
  const kernels::Transfer transfer{address(i), residence_, bytes.data(), bytes_};
  if (kernels::fetch({&transfer, 1}) != kernels::Status::ok) throw std::runtime_error("the device failed");
  return bytes;
}

}  // namespace ec::tools
