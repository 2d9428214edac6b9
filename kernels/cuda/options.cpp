// The options of the device room.
#include "kernels/cuda/options.hpp"

#include <atomic>

namespace ec::kernels::cuda {
namespace {

struct Configured {
  Options options;
  const Configured* before = nullptr;  // kept, since a reader may still hold it
};

/// No lock: a child of fork() would have to wait for the thread that held it.
std::atomic<const Configured*> last{new Configured};

}  // namespace

void configure(const Options& options) {
  auto* configured = new Configured{options, last.load(std::memory_order_relaxed)};
  while (!last.compare_exchange_weak(configured->before, configured, std::memory_order_release)) {
  }
}

const Options& current_options() noexcept { return last.load(std::memory_order_acquire)->options; }

}  // namespace ec::kernels::cuda
