// The devices of this process, and which of them a job goes to.
#include "kernels/cuda/device/devices.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace ec::kernels::cuda {
namespace {

/// CUDA contexts do not survive fork(), and threads that the child has not may hold locks. So a child has no
/// devices.
std::atomic<bool> forked{false};

int numa_node_of_this_thread() {
  unsigned cpu = 0, node = 0;
  return getcpu(&cpu, &node) == 0 ? static_cast<int>(node) : -1;
}

/// The ordinal of the GPU whose memory holds `address`; nothing if the driver does not say.
std::optional<int> ordinal_of(const Device& device, const void* address) {
  const Device::Scope scope(device);
  int ordinal = -1;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
  void* value = &ordinal;
  if (scope.result() != CUDA_SUCCESS ||
      device.driver().pointer_get_attributes(1, &attribute, &value, reinterpret_cast<CUdeviceptr>(address)) !=
          CUDA_SUCCESS ||
      ordinal < 0)
    return std::nullopt;
  return ordinal;
}

template <class Visit>
void visit_device_chunks(std::span<const Job> jobs, Visit&& visit) {
  for (const Job& job : jobs) {
    for (const Source& s : job.sources)
      if (s.residence == Residence::device) visit(s.data);
    for (const Target& t : job.targets)
      if (t.residence == Residence::device) visit(t.data);
  }
}

}  // namespace

Devices::Devices() {
  for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].set_index(i);
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
}

Devices& Devices::instance() {
  // Never destroyed: threads of the host may still code while static objects go. Only the threads that bring
  // devices up are waited for.
  static Devices* devices = new Devices;
  static struct Joiner {
    ~Joiner() {
      if (forked) return;
      for (DeviceSlot& slot : devices->slots_) slot.stop();
    }
  } joiner;
  return *devices;
}

std::span<DeviceSlot> Devices::slots() {
  return std::span(slots_).first(forked ? 0 : std::min(device_count(), most));
}

bool Devices::in_forked_child() noexcept { return forked; }

Claim Devices::acquire(std::size_t bytes) {
  const auto in_use = slots();
  if (in_use.empty()) return Claim();
  if (in_use.size() == 1) return Claim(in_use[0].acquire());
  const int here = numa_node_of_this_thread();
  std::shared_ptr<Device> best;
  std::atomic<std::size_t>* under_way = nullptr;
  std::tuple<std::size_t, bool> least;
  std::lock_guard lock(choice_mutex_);
  for (std::size_t i = 0; i < in_use.size(); ++i) {
    auto device = in_use[i].acquire();
    if (!device) continue;
    const int node = device->info().numa_node;
    const std::tuple cost(under_way_[i].load(std::memory_order_relaxed), node >= 0 && node != here);
    if (best && least <= cost) continue;
    best = std::move(device);
    under_way = &under_way_[i];
    least = cost;
  }
  if (best) under_way->fetch_add(bytes, std::memory_order_relaxed);
  return Claim(std::move(best), under_way, bytes);
}

std::shared_ptr<Device> Devices::acquire_waiting(std::string* why) {
  if (auto device = acquire(0).device()) return device;
  if (forked) *why = "this process is a child of fork()";
  for (DeviceSlot& slot : slots()) {
    std::string reason;
    if (auto device = slot.acquire_waiting(&reason)) return device;
    if (&slot == slots_.data()) *why = reason;
  }
  return nullptr;
}

std::shared_ptr<Device> Devices::acquire_waiting(std::size_t index, std::string* why) {
  if (index < slots().size()) return slots()[index].acquire_waiting(why);
  *why = fmt::format("there are {} devices for this process", slots().size());
  return nullptr;
}

std::shared_ptr<Device> Devices::holder_of(std::span<const Job> jobs, std::string* why) {
  auto device = acquire_waiting(why);
  if (!device || device->info().gpus_of_machine == 1) return device;
  std::optional<int> ordinal;
  bool many = false;
  visit_device_chunks(jobs, [&](const void* address) {
    const auto where = ordinal_of(*device, address);
    many = many || (ordinal && where && *where != *ordinal);
    if (where) ordinal = where;
  });
  if (many) {
    *why = "the chunks lie in the memory of several GPUs";
    return nullptr;
  }
  // What the driver does not know is for the device to say.
  if (!ordinal || device->info().ordinal == *ordinal) return device;
  const auto devices = current_options().devices;
  const auto at = std::ranges::find(devices, *ordinal);
  if (at != devices.end()) return acquire_waiting(static_cast<std::size_t>(at - devices.begin()), why);
  *why =
      fmt::format("the chunks lie in the memory of GPU {}, which is not among the devices in use", *ordinal);
  return nullptr;
}

std::shared_ptr<Device> Devices::owner_of(CUstream stream) {
  for (DeviceSlot& slot : slots()) {
    auto device = slot.current();
    if (device && device->owns(stream)) return device;
  }
  return nullptr;
}

std::shared_ptr<Device> Devices::current() {
  for (DeviceSlot& slot : slots())
    if (auto device = slot.current()) return device;
  return nullptr;
}

std::size_t Devices::up() {
  return static_cast<std::size_t>(
      std::ranges::count_if(slots(), [](DeviceSlot& slot) { return slot.current() != nullptr; }));
}

void Devices::latch(const std::shared_ptr<Device>& device, const std::string& reason) {
  for (DeviceSlot& slot : slots_) slot.latch(device, reason);
}

void Devices::reset() {
  for (DeviceSlot& slot : slots_) slot.reset();
}

}  // namespace ec::kernels::cuda
