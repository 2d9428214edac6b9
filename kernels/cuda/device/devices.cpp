// The devices of this process: how they come up and are latched off, and the choice of one for a job.
#include "kernels/cuda/device/devices.hpp"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "kernels/cuda/submit/device_job.hpp"
#include "support/wait.hpp"

namespace ec::kernels::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// The pause before the next try, where the system had no thread for the last one.
constexpr std::chrono::seconds without_a_thread{1};

/// CUDA contexts do not survive fork(), and threads that do not exist in the child may hold locks. So a child
/// of a process that has used devices has none.
std::atomic<bool> used{false}, forked{false};

constexpr auto any_device = [](const Device&) { return true; };

}  // namespace

Devices::Devices() {
  pthread_atfork(nullptr, nullptr, [] { forked = used.load(); });
}

Devices& Devices::instance() {
  static NeverDestroyed<Devices> devices;
  return devices.value;
}

/// Made when the library is loaded: a child would wait for ever for a thread that makes the object at fork().
[[maybe_unused]] static const Devices& at_load = Devices::instance();

void Devices::stop() {
  if (forked) return;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  const auto end = Clock::now() + std::chrono::seconds(10);  // for all together
  for (Slot& slot : slots_) slot.thread.join(end);
}

std::span<Devices::Slot> Devices::slots() {
  if (!used.load(std::memory_order_relaxed)) used = true;
  return std::span(slots_).first(forked ? 0 : std::min(device_count(), most_devices));
}

void Devices::start_if_due_locked(Slot& slot) {
  if (slot.state == DeviceState::up || slot.state == DeviceState::coming_up || stopped_ ||
      Clock::now() < slot.retry_at)
    return;
  // At the end only the threads that bring devices up are waited for.
  static struct Joiner {
    ~Joiner() { instance().stop(); }
  } joiner;
  if (slot.thread.start("ec_cuda_device", [this, &slot] { bring_up(slot); }) == 0) {
    become_locked(slot, DeviceState::coming_up, nullptr, slot.reason);
  } else {
    become_locked(slot, DeviceState::none, nullptr, "no thread");
    slot.retry_at = Clock::now() + without_a_thread;
  }
}

/// The body of the thread.
void Devices::bring_up(Slot& slot) {
  const Options& options = current_options();
  std::shared_ptr<Device> device;
  Reason why;
  auto& tried = slot.tried;
  try {
    if (tried) tried->take_back();
    tried.reset();
    tried = Device::bring_up(options, options.devices.at(static_cast<std::size_t>(&slot - slots_.data())));
    self_test(*tried);
    // Logged before other threads know the device, so that a thread that waited finds the line in the log.
    const DeviceInfo& info = tried->info();
    log(options, "device {} is up: {}, compute capability {}.{}{}", info.ordinal, info.name,
        info.compute_major, info.compute_minor, info.shared_by_mps != 0 ? ", shared by MPS" : "");
    set(device_stats().shared_by_mps, static_cast<std::uint64_t>(info.shared_by_mps));
    tried->lock_preload_arena();
    device.swap(tried);
  } catch (const std::runtime_error& error) {
    why = error.what();
  } catch (const std::exception&) {
    why = "out of memory";
  }
  if (tried && !tried->is_abandoned()) tried.reset();
  std::unique_lock lock(mutex_);
  if (!device && why != slot.reason.view()) {
    lock.unlock();
    log(options, "no device, the CPU codes: {}", why.view());
    lock.lock();
  }
  add(device ? device_stats().starts : device_stats().failed_starts, 1);
  if (!device) slot.retry_at = Clock::now() + options.retry_after;
  const DeviceState state = device ? DeviceState::up : DeviceState::none;
  become_locked(slot, state, std::move(device), why);
  lock.unlock();
  came_up_or_failed_.notify_all();
}

/// The process is as well off as its best device: up, coming up, latched off, or none.
void Devices::become_locked(Slot& slot, DeviceState state, std::shared_ptr<Device> device,
                            const Reason& reason) noexcept {
  slot.state = state;
  slot.device = std::move(device);
  slot.reason = reason;
  constexpr DeviceState best_first[] = {DeviceState::up, DeviceState::coming_up, DeviceState::latched,
                                        DeviceState::none};
  const auto* const best = std::ranges::find_if(
      best_first, [&](DeviceState s) { return std::ranges::count(slots_, s, &Slot::state) > 0; });
  set(device_stats().state, static_cast<std::uint64_t>(*best));
}

Claim Devices::acquire(std::size_t bytes) {
  const auto in_use = slots();
  if (in_use.empty()) return Claim();
  std::lock_guard lock(mutex_);
  Slot* best = nullptr;
  for (Slot& slot : in_use) {
    start_if_due_locked(slot);
    if (slot.device && (best == nullptr || slot.device->under_way() < best->device->under_way()))
      best = &slot;
  }
  return best == nullptr ? Claim() : Claim(best->device, bytes);
}

/// `fits` is asked without the lock, once for each slot: the driver may take its time.
std::shared_ptr<Device> Devices::wait_for(std::span<Slot> among, Reason* why, const auto& fits) {
  if (among.empty()) return nullptr;
  std::array<bool, most_devices> asked{};
  std::unique_lock lock(mutex_);
  for (Slot& slot : among) start_if_due_locked(slot);
  for (;;) {
    std::size_t next = 0;
    support::wait(came_up_or_failed_, lock, [&] {
      for (next = 0; next < among.size(); ++next)
        if (among[next].device && !asked[next]) return true;
      return std::ranges::count(among, DeviceState::coming_up, &Slot::state) == 0;
    });
    if (next == among.size()) break;
    auto device = among[next].device;
    asked[next] = true;
    lock.unlock();
    if (fits(*device)) return device;
    lock.lock();
  }
  *why = among.front().reason;
  return nullptr;
}

std::shared_ptr<Device> Devices::acquire_waiting(Reason* why) {
  if (forked) *why = "this process is a child of fork()";
  return wait_for(slots(), why, any_device);
}

std::shared_ptr<Device> Devices::acquire_waiting(std::size_t index, Reason* why) {
  if (index < slots().size()) return wait_for(slots().subspan(index, 1), why, any_device);
  *why = {"there are {} devices for this process", slots().size()};
  return nullptr;
}

std::shared_ptr<Device> Devices::holder_of(std::span<const Job> jobs, const void* word) {
  Reason why;
  auto device = acquire_waiting(&why);
  if (!device || device->info().gpus_of_machine == 1) return device;
  const Device::Scope scope(*device);
  int ordinal = -1;
  bool many = false;
  const auto look_at = [&](const auto& chunk) {
    const int where = chunk.residence == Residence::device ? device->holder_of(chunk.data) : -1;
    many = many || (ordinal >= 0 && where >= 0 && where != ordinal);
    if (where >= 0) ordinal = where;
  };
  for (const Job& job : jobs) {
    std::ranges::for_each(job.sources, look_at);
    std::ranges::for_each(job.targets, look_at);
  }
  if (word != nullptr) look_at(Source{static_cast<const std::uint8_t*>(word), Residence::device});
  if (many) return nullptr;
  const auto& devices = current_options().devices;
  // Pinned memory is no device's, and the driver does not know every address.
  if (ordinal < 0) ordinal = devices.front();
  if (device->info().ordinal == ordinal) return device;
  const auto at = std::ranges::find(devices, ordinal);
  if (at == devices.end()) return nullptr;
  return acquire_waiting(static_cast<std::size_t>(at - devices.begin()), &why);
}

std::shared_ptr<Device> Devices::owner_of(CUstream stream) {
  Reason why;
  return wait_for(slots(), &why, [stream](const Device& device) { return device.owns(stream); });
}

std::shared_ptr<Device> Devices::current() {
  const auto in_use = slots();
  if (in_use.empty()) return nullptr;
  std::lock_guard lock(mutex_);
  const auto up = std::ranges::find_if(in_use, [](const Slot& slot) { return slot.device != nullptr; });
  return up == in_use.end() ? nullptr : up->device;
}

void Devices::latch(Device& device, const Reason& reason) noexcept {
  const Options& options = device.options();
  const auto at = std::ranges::find(options.devices, device.info().ordinal) - options.devices.begin();
  Slot& slot = slots_[static_cast<std::size_t>(at)];
  {
    std::lock_guard lock(mutex_);
    const bool is_up = slot.device.get() == &device;
    // A device may hang after it was latched for another fault; one is kept. While a device comes up `tried`
    // is the thread's.
    if (device.is_abandoned() && (is_up || (slot.state != DeviceState::coming_up && !slot.tried)))
      slot.tried = device.shared_from_this();
    if (!is_up) return;
    slot.retry_at = Clock::now() + options.retry_after;
    add(device_stats().latches, 1);
    become_locked(slot, DeviceState::latched, nullptr, reason);
  }
  log(options, "device {} is latched off for {} s, the CPU codes: {}", device.info().ordinal,
      options.retry_after.count(), reason.view());
}

void Devices::reset() {
  for (Slot& slot : slots_) {
    std::unique_lock lock(mutex_);
    support::wait(came_up_or_failed_, lock, [&] { return slot.state != DeviceState::coming_up; });
    slot.retry_at = {};
    slot.tried.reset();
    auto last = std::move(slot.device);
    become_locked(slot, DeviceState::none, nullptr, {});
    lock.unlock();  // destroying devices takes time
  }
}

}  // namespace ec::kernels::cuda
