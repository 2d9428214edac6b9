#include <fmt/format.h>
#include <pthread.h>

#include <atomic>

#include "kernels/cuda/device/device.hpp"
#include "kernels/cuda/device/memory.hpp"
#include "kernels/cuda/submit/device_job.hpp"
#include "kernels/residence.hpp"
#include "kernels/tallies.hpp"

namespace ec::kernels::cuda {
namespace {

/// CUDA contexts do not survive fork(), and the slot's mutex may be held by a thread that the child has not.
std::atomic<bool> in_forked_child{false};

void log(const Options& options, const std::string& line) {
  if (options.log != nullptr) options.log(line.c_str());
}

std::atomic<int> devices_up{0};

/// Until the next try, where the system had no thread for the first.
constexpr std::chrono::seconds without_a_thread{1};

/// What became of one device, after devices_up was set right. The process is as well off as its best device.
void tell(DeviceState state) {
  const bool up = devices_up.load() > 0;
  set(device_tallies().state, static_cast<std::uint64_t>(up ? DeviceState::up : state));
}

}  // namespace

DeviceSlot::DeviceSlot() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; }); });
}

void DeviceSlot::join_riser() {
  if (!in_forked_child && riser_.joinable()) riser_.join();
}

std::shared_ptr<Device> DeviceSlot::acquire() {
  if (in_forked_child) return nullptr;
  std::lock_guard lock(mutex_);
  if (device_) return device_;
  if (!rising_ && std::chrono::steady_clock::now() >= retry_at_) start_rising_locked();
  return nullptr;
}

std::shared_ptr<Device> DeviceSlot::current() {
  if (in_forked_child) return nullptr;
  std::lock_guard lock(mutex_);
  return device_;
}

std::shared_ptr<Device> DeviceSlot::acquire_waiting(std::string* why) {
  if (in_forked_child) {
    *why = "this process is a child of fork()";
    return nullptr;
  }
  std::unique_lock lock(mutex_);
  if (!device_ && !rising_ && std::chrono::steady_clock::now() >= retry_at_) start_rising_locked();
  risen_.wait(lock, [&] { return !rising_; });
  if (!device_) *why = reason_;
  return device_;
}

void DeviceSlot::start_rising_locked() {
  // A finished thread only; rise() clears rising_ as its last act.
  if (riser_.joinable()) riser_.join();
  rising_ = true;
  try {
    riser_ = std::thread([this] { rise(); });
    tell(DeviceState::coming_up);
  } catch (const std::exception&) {
    rising_ = false;
    reason_ = "no thread";
    retry_at_ = std::chrono::steady_clock::now() + without_a_thread;
  }
}

void DeviceSlot::rise() {
  const Options options = current_options();
  std::string why;
  auto device = Device::bring_up(options, options.devices.at(index_), &why);
  if (device && !self_test(device, &why)) device = nullptr;

  // Said before it is known to others, so that whoever waited finds the line in the log.
  if (device) {
    log(options,
        fmt::format("ec_cuda: device {} is up: {}, compute capability {}.{}", device->info().ordinal,
                    device->info().name, device->info().compute_major, device->info().compute_minor));
    answer_residence_with(driver_residence);
    if (const auto arena = device->lock_preload_arena(); !arena.empty()) log(options, "ec_cuda: " + arena);
  } else if (why != last_reason())
    log(options, fmt::format("ec_cuda: no device, the CPU codes: {}", why));
  {
    std::lock_guard lock(mutex_);
    if (!device) retry_at_ = std::chrono::steady_clock::now() + options.retry_after;
    reason_ = why;
    add(device ? device_tallies().starts : device_tallies().failed_starts, 1);
    if (device) ++devices_up;
    tell(DeviceState::none);
    device_ = std::move(device);
    rising_ = false;
  }
  risen_.notify_all();
}

std::string DeviceSlot::last_reason() {
  std::lock_guard lock(mutex_);
  return reason_;
}

void DeviceSlot::latch(const std::shared_ptr<Device>& device, const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (device_ != device) return;
    device_ = nullptr;
    --devices_up;
    reason_ = reason;
    retry_at_ = std::chrono::steady_clock::now() + device->options().retry_after;
    add(device_tallies().latches, 1);
    tell(DeviceState::latched);
  }
  log(device->options(), fmt::format("ec_cuda: device {} is latched off for {} s, the CPU codes: {}",
                                     device->info().ordinal, device->options().retry_after.count(), reason));
}

void DeviceSlot::reset() {
  std::unique_lock lock(mutex_);
  risen_.wait(lock, [&] { return !rising_; });
  if (device_) --devices_up;
  device_ = nullptr;
  reason_.clear();
  retry_at_ = {};
  tell(DeviceState::none);
}

}  // namespace ec::kernels::cuda
