// For loops that look again and again.
#pragma once

namespace ec::kernels::cuda {

/// Leaves the core's other thread some room.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace ec::kernels::cuda
