#include "plugin/isal/real.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "kernels/x86/coefficients.hpp"

namespace ec::isal {
namespace {

/// What a shell and the dynamic linker say of a program that cannot be started.
constexpr int cannot_start = 127;

[[noreturn]] void refuse(const char* path, const char* why) {
  std::fprintf(stderr, "libec_isal: %s is not an ISA-L that calls can be passed to: %s\n", path, why);
  _exit(cannot_start);
}

template <class Function>
void find(void* library, const char* path, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) refuse(path, dlerror());
}

}  // namespace

Real load_real(const char* path) noexcept {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) refuse(path, dlerror());
  if (dlsym(library, "ec_isal_real") != nullptr) refuse(path, "it is libec_isal.so itself");
  Real real{};
  find(library, path, "ec_init_tables", real.init_tables);
  find(library, path, "ec_encode_data", real.encode);
  find(library, path, "ec_encode_data_update", real.update);
  find(library, path, "gf_vect_mul_init", real.multiply_init);
  find(library, path, "gf_vect_mul", real.multiply);

  unsigned char coefficient = 0x1d, written[entry_bytes] = {}, classic[entry_bytes];
  real.init_tables(1, 1, &coefficient, written);
  write_entry(coefficient, classic);
  real.classic_tables = std::memcmp(written, classic, entry_bytes) == 0;
  return real;
}

void write_entry(unsigned char coefficient, unsigned char* to) noexcept {
  static_assert(entry_bytes == kernels::x86::shuffle_bytes);
  std::memcpy(to, kernels::x86::nibble_products(coefficient), entry_bytes);
}

}  // namespace ec::isal
