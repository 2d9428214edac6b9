// Keeps work of streams back, and finds the last target of a launch.
#include "tests/drivers/fault/launches.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "kernels/cuda/generate/emit.hpp"
#include "kernels/cuda/kernels/bit_args.hpp"
#include "kernels/cuda/kernels/table_args.hpp"
#include "kernels/cuda/kernels/tile_args.hpp"

namespace ec::test::faults {
namespace {

using kernels::cuda::BitArgs;
using kernels::cuda::TableArgs;
using kernels::cuda::TileArgs;

CUdeviceptr word(std::span<const std::byte> bytes, std::size_t index) {
  CUdeviceptr value = 0;
  if (8 * index + 8 <= bytes.size()) std::memcpy(&value, bytes.data() + 8 * index, 8);
  return value;
}

template <class Args>
std::optional<Args> args(std::span<const std::byte> parameter) {
  Args a;
  if (parameter.size() != sizeof a) return std::nullopt;
  std::memcpy(static_cast<void*>(&a), parameter.data(), sizeof a);
  return a;
}

template <class Args>
CUdeviceptr last_address(const Args& a, std::size_t targets) {
  return word(std::as_bytes(std::span(a.blob)), a.sources + targets - 1);
}

/// Of ec_table_r<rows>_<ones>.
std::size_t table_targets(const std::string& name) {
  for (const auto& kernel : kernels::cuda::table_kernels)
    if (name == "ec_table_r" + std::to_string(kernel.rows) + "_" + std::to_string(kernel.ones))
      return kernel.rows + kernel.ones;
  return 0;
}

/// After the addresses of a generated program: bytes, stripes, what is not used.
constexpr std::size_t generated_rest = 16 + kernels::cuda::unused_bytes;

}  // namespace

void Launches::named(CUfunction function, const char* name) {
  std::lock_guard lock(mutex_);
  names_[function] = name;
}

std::vector<std::byte> Launches::parameter(CUfunction function, void** parameters) const {
  std::size_t offset = 0, bytes = 0;
  if (info_ == nullptr || parameters == nullptr || info_(function, 0, &offset, &bytes) != CUDA_SUCCESS)
    return {};
  const auto* first = static_cast<const std::byte*>(parameters[0]);
  return {first, first + bytes};
}

void Launches::hold(CUstream stream, CUcontext context, Clock::time_point due, std::function<void()> work) {
  std::lock_guard lock(mutex_);
  // In the order of the stream: what is behind others is due when the last of them is.
  for (const Held& h : held_)
    if (h.stream == stream) due = std::max(due, h.due);
  held_.push_back({stream, context, due, std::move(work)});
  any_held_ = true;
}

void Launches::start(Launch& l) const {
  void* parameters[] = {l.parameter.data()};
  // Nobody asks any more how it went.
  driver_->launch_kernel(l.function, l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2],
                         l.shared, l.stream, parameters, nullptr);
}

bool Launches::holds(CUstream stream) {
  if (!any_held_) return false;
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(held_, [&](const Held& h) { return h.stream == stream; });
}

void Launches::finish(bool all) {
  if (!any_held_) return;
  std::vector<Held> due;
  {
    std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    const auto waits = [&](const Held& h) { return !all && h.due > now; };
    const auto first = std::stable_partition(held_.begin(), held_.end(), waits);
    due.assign(std::make_move_iterator(first), std::make_move_iterator(held_.end()));
    held_.erase(first, held_.end());
    any_held_ = !held_.empty();
  }
  for (Held& h : due) {
    if (driver_->ctx_push_current(h.context) != CUDA_SUCCESS) continue;
    h.work();
    CUcontext ignored = nullptr;
    driver_->ctx_pop_current(&ignored);
  }
}

void Launches::drop() {
  std::lock_guard lock(mutex_);
  held_.clear();
  any_held_ = false;
}

void Launches::copied(CUdeviceptr to, const void* from, std::size_t bytes) {
  if (bytes < 8 || bytes % 8 != 0) return;
  CUdeviceptr last = 0;
  std::memcpy(&last, static_cast<const std::byte*>(from) + bytes - 8, 8);
  std::lock_guard lock(mutex_);
  tables_[to] = last;
}

CUdeviceptr Launches::last_target(const Launch& launch) {
  std::lock_guard lock(mutex_);
  const std::string& name = names_[launch.function];
  const std::span<const std::byte> parameter = launch.parameter;
  if (name == kernels::cuda::entry_point) {
    const std::size_t addresses =
        parameter.size() < generated_rest ? 0 : (parameter.size() - generated_rest) / 8;
    // One address is that of a table.
    return addresses > 1 ? word(parameter, addresses - 1) : tables_[word(parameter, 0)];
  }
  if (name.starts_with("ec_table")) {
    const auto a = args<TableArgs>(parameter);
    return a ? last_address(*a, table_targets(name)) : 0;
  }
  if (name.starts_with("ec_bits")) {
    const auto a = args<BitArgs>(parameter);
    return a ? last_address(*a, a->targets) : 0;
  }
  const auto a = args<TileArgs>(parameter);
  return a && !name.starts_with("ec_xor") ? last_address(*a, a->targets) : 0;
}

void Launches::spoil(const Launch& launch) {
  const CUdeviceptr at = last_target(launch);
  unsigned char byte = 0;
  if (at == 0 || driver_->stream_synchronize(launch.stream) != CUDA_SUCCESS ||
      driver_->memcpy_dtoh(&byte, at, 1) != CUDA_SUCCESS)
    return;
  byte ^= 1;
  driver_->memcpy_htod(at, &byte, 1);
}

}  // namespace ec::test::faults
