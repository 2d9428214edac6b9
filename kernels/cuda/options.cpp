#include "kernels/cuda/options.hpp"

#include <mutex>

namespace ec::kernels::cuda {
namespace {

struct Shared {
  std::mutex mutex;
  Options options;
};

Shared& shared() {
  static Shared instance;
  return instance;
}

}  // namespace

void configure(const Options& options) {
  std::lock_guard lock(shared().mutex);
  shared().options = options;
}

Options current_options() {
  std::lock_guard lock(shared().mutex);
  return shared().options;
}

}  // namespace ec::kernels::cuda
