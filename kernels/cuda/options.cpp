#include "kernels/cuda/options.hpp"

#include <atomic>
#include <mutex>

namespace ec::kernels::cuda {
namespace {

struct Shared {
  std::mutex mutex;
  Options options;
};

/// By itself, because every call that is predicted reads it.
constinit std::atomic<std::size_t> devices{1};

Shared& shared() {
  static Shared instance;
  return instance;
}

}  // namespace

void configure(const Options& options) {
  std::lock_guard lock(shared().mutex);
  shared().options = options;
  devices = options.devices.size();
}

Options current_options() {
  std::lock_guard lock(shared().mutex);
  return shared().options;
}

std::size_t device_count() { return devices.load(std::memory_order_relaxed); }

}  // namespace ec::kernels::cuda
