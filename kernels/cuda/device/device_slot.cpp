// The place of one device: brings it up in the background, and latches it off after a fault.
#include "kernels/cuda/device/device_slot.hpp"

#include <atomic>
#include <exception>
#include <utility>

#include "kernels/cuda/device/driver_residence.hpp"
#include "kernels/cuda/submit/device_job.hpp"
#include "kernels/residence.hpp"

namespace ec::kernels::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// Until the next try, where the system had no thread for the last.
constexpr std::chrono::seconds without_a_thread{1};

std::atomic<int> devices_up{0};

}  // namespace

std::shared_ptr<Device> DeviceSlot::acquire() {
  std::lock_guard lock(mutex_);
  start_if_due_locked();
  return device_;
}

std::shared_ptr<Device> DeviceSlot::current() {
  std::lock_guard lock(mutex_);
  return device_;
}

std::shared_ptr<Device> DeviceSlot::acquire_waiting(std::string* why) {
  std::unique_lock lock(mutex_);
  start_if_due_locked();
  came_up_or_failed_.wait(lock, [&] { return state_ != DeviceState::coming_up; });
  if (!device_) *why = reason_;
  return device_;
}

void DeviceSlot::start_if_due_locked() {
  if (state_ == DeviceState::up || state_ == DeviceState::coming_up || stopped_ || Clock::now() < retry_at_)
    return;
  if (thread_.start("ec_cuda_device", [this] { bring_up(); }) == 0) {
    become_locked(DeviceState::coming_up, nullptr, std::move(reason_));
  } else {
    become_locked(DeviceState::none, nullptr, "no thread");
    retry_at_ = Clock::now() + without_a_thread;
  }
}

/// What the thread does. Out of memory it says what fits into a string without any.
void DeviceSlot::bring_up() {
  const Options& options = current_options();
  std::shared_ptr<Device> device;
  std::string why;
  try {
    device = Device::bring_up(options, options.devices.at(index_), &why);
    if (device && !self_test(device, &why)) device = nullptr;
    if (device) {
      // Said before it is known to others, so that whoever waited finds the line in the log.
      const DeviceInfo& info = device->info();
      log(options, "device {} is up: {}, compute capability {}.{}", info.ordinal, info.name,
          info.compute_major, info.compute_minor);
      answer_residence_with(driver_residence);
      if (const auto arena = device->lock_preload_arena(); !arena.empty()) log(options, "{}", arena);
    }
  } catch (const std::exception&) {
    device = nullptr;
    why = "out of memory";
  }
  std::unique_lock lock(mutex_);
  if (const bool news = why != reason_; news && !device) {
    lock.unlock();
    log(options, "no device, the CPU codes: {}", why);
    lock.lock();
  }
  add(device ? device_tallies().starts : device_tallies().failed_starts, 1);
  if (device)
    ++devices_up;
  else
    retry_at_ = Clock::now() + options.retry_after;
  const DeviceState state = device ? DeviceState::up : DeviceState::none;
  become_locked(state, std::move(device), std::move(why));
  lock.unlock();
  came_up_or_failed_.notify_all();
}

/// The process is as well off as its best device.
void DeviceSlot::become_locked(DeviceState state, std::shared_ptr<Device> device, std::string reason) {
  state_ = state;
  device_ = std::move(device);
  reason_ = std::move(reason);
  set(device_tallies().state, static_cast<std::uint64_t>(devices_up > 0 ? DeviceState::up : state));
}

void DeviceSlot::latch(const std::shared_ptr<Device>& device, const std::string& reason) {
  const Options& options = device->options();
  std::string kept = reason;
  {
    std::lock_guard lock(mutex_);
    if (device_ != device) return;
    --devices_up;
    retry_at_ = Clock::now() + options.retry_after;
    add(device_tallies().latches, 1);
    become_locked(DeviceState::latched, nullptr, std::move(kept));
  }
  log(options, "device {} is latched off for {} s, the CPU codes: {}", device->info().ordinal,
      options.retry_after.count(), reason);
}

void DeviceSlot::reset() {
  std::unique_lock lock(mutex_);
  came_up_or_failed_.wait(lock, [&] { return state_ != DeviceState::coming_up; });
  if (device_) --devices_up;
  retry_at_ = {};
  become_locked(DeviceState::none, nullptr, {});
}

void DeviceSlot::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  thread_.join();
}

}  // namespace ec::kernels::cuda
