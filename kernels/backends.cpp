#include "kernels/backends.hpp"

#include <array>

#include "kernels/isal/isal.hpp"
#include "kernels/reference/reference.hpp"
#ifdef EC_WITH_CUDA
#include "kernels/cuda/backend.hpp"
#endif

namespace ec::kernels {

std::span<Backend* const> backends() noexcept {
  static const std::array list{
#ifdef EC_WITH_CUDA
      &cuda::backend(),
#endif
      &isal_backend(), &reference_backend()};
  return list;
}

Backend* find_backend(std::string_view name) noexcept {
  for (Backend* b : backends())
    if (b->name() == name) return b;
  return nullptr;
}

}  // namespace ec::kernels
