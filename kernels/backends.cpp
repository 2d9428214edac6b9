#include "kernels/backends.hpp"

#include <array>
#include <vector>

#include "kernels/cuda/options.hpp"
#ifdef EC_WITH_CUDA
#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device/devices.hpp"
#endif
#ifdef EC_WITH_X86
#include "kernels/x86/backend.hpp"
#endif

namespace ec::kernels {

std::span<Backend* const> backends() noexcept {
  static const auto list = std::to_array<Backend*>({
#ifdef EC_WITH_CUDA
      &cuda::backend(),
#endif
#ifdef EC_WITH_X86
      &x86::backend(),
#endif
      &isal_backend(), &reference_backend()});
  return list;
}

/// Made when the library is loaded, before a host forks: where another thread was making the list, a child
/// would wait for it for ever.
[[maybe_unused]] static const auto at_load = backends();

std::span<Backend* const> variants() noexcept {
  static const auto list = [] {
    std::vector<Backend*> all;
#ifdef EC_WITH_X86
    for (x86::X86& each : x86::variants()) all.push_back(&each);
#endif
#ifdef EC_WITH_CUDA
    for (const auto kind : {cuda::KernelKind::tile, cuda::KernelKind::table, cuda::KernelKind::bits,
                            cuda::KernelKind::paired, cuda::KernelKind::generated})
      all.push_back(&cuda::backend(kind));
#endif
    return all;
  }();
  return list;
}

#ifdef EC_WITH_CUDA
bool can_be_pinned() noexcept { return cuda::has_preload(); }
void want_pinned() noexcept {
  if (cuda::has_preload()) static_cast<void>(cuda::Devices::instance().acquire(0));
}
unsigned device_count() noexcept { return static_cast<unsigned>(cuda::device_count()); }
#else
bool can_be_pinned() noexcept { return false; }
void want_pinned() noexcept {}
unsigned device_count() noexcept { return 1; }
void cuda::configure(const Options&) {}
bool cuda::bring_up(Reason* why) noexcept {
  return *why = "this library was built without the GPU back end", false;
}
#endif

}  // namespace ec::kernels
