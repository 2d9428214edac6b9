// The list of back ends of this build.
#include "kernels/backends.hpp"

#include <array>
#include <vector>

#include "support/process_life.hpp"
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

namespace {
const AtLoad at_load(backends);
}  // namespace

std::span<Backend* const> variants() noexcept {
  static const auto list = [] {
    std::vector<Backend*> all;
#ifdef EC_WITH_X86
    all.insert(all.end(), x86::variants().begin(), x86::variants().end());
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

Backend* find_backend(std::string_view name) noexcept {
  for (auto list : {backends(), variants()})
    for (Backend* b : list)
      if (b->name() == name) return b;
  return nullptr;
}

bool can_be_pinned() noexcept {
#ifdef EC_WITH_CUDA
  return cuda::has_preload();
#else
  return false;
#endif
}

void want_pinned() noexcept {
#ifdef EC_WITH_CUDA
  if (cuda::has_preload()) static_cast<void>(cuda::Devices::instance().acquire(0));
#endif
}

unsigned device_count() noexcept {
#ifdef EC_WITH_CUDA
  return static_cast<unsigned>(cuda::device_count());
#else
  return 1;
#endif
}

}  // namespace ec::kernels
