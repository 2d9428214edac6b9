// libec_isal.so: ISA-L's functions that read or write tables, in front of those of the real library. All of
// them, because a table of one library is for that library alone; everything else that ISA-L has is found in
// the real library behind this one. Bytes and parameters are those of isa-l/erasure_code.h.
#include "plugin/isal/door.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace ec::isal {
namespace {

/// One call in so many of a thread's is compared with the real library, as many as the plugin compares.
constexpr unsigned checked_every = 1000;

Door& door() noexcept {
  static Door only(load_real(EC_REAL_ISAL), kernels::x86::backend(), checked_every);
  return only;
}

/// Made when we are loaded, so that no child of fork() finds another thread at it.
[[maybe_unused]] const Door& at_load = door();

}  // namespace
}  // namespace ec::isal

using namespace ec::isal;  // NOLINT: the C functions below are all the rest of this file

EXPORTED const ec_isal_functions* ec_isal_real() { return &door().real(); }

EXPORTED void ec_init_tables(int k, int rows, unsigned char* matrix, unsigned char* tables) {
  for (long entry = 0; entry < long{k} * rows; ++entry)
    write_entry(matrix[entry], tables + entry * long{entry_bytes});
}

EXPORTED void ec_encode_data(int bytes, int k, int rows, unsigned char* tables, unsigned char** sources,
                             unsigned char** targets) {
  door().encode({bytes, k, rows, tables, sources, targets});
}

EXPORTED void ec_encode_data_update(int bytes, int k, int rows, int column, unsigned char* tables,
                                    unsigned char* source, unsigned char** targets) {
  door().update(bytes, k, rows, column, tables, source, targets);
}

EXPORTED void gf_vect_mul_init(unsigned char coefficient, unsigned char* table) {
  write_entry(coefficient, table);
}

EXPORTED int gf_vect_mul(int bytes, unsigned char* table, void* source, void* target) {
  return door().multiply(bytes, table, source, target);
}

EXPORTED void gf_vect_dot_prod(int bytes, int k, unsigned char* tables, unsigned char** sources,
                               unsigned char* target) {
  door().encode({bytes, k, 1, tables, sources, &target});
}

EXPORTED void gf_vect_mad(int bytes, int k, int column, unsigned char* tables, unsigned char* source,
                          unsigned char* target) {
  door().update(bytes, k, 1, column, tables, source, &target);
}
