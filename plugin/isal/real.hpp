// The functions of the real ISA-L that the door passes calls to.
#pragma once

#include "ec_isal.h"

namespace ec::isal {

/// Bytes of a table for one coefficient.
inline constexpr unsigned entry_bytes = 32;

/// As in isa-l/erasure_code.h. Tables of one library are for that library alone.
struct Real : ec_isal_functions {
  void (*multiply_init)(unsigned char coefficient, unsigned char* table) = nullptr;
  int (*multiply)(int bytes, unsigned char* table, void* source, void* target) = nullptr;

  /// Whether it reads tables of the layout that every ISA-L up to 2.30 writes. Later ones write bit matrices
  /// where the CPU has GFNI.
  bool classic_tables = false;
};

/// Of the library at that path, which stays loaded. One that lacks a function ends the process with a line on
/// stderr, as the dynamic linker would.
Real load_real(const char* path) noexcept;

/// The table of one coefficient c in the classic layout: c times 0, 1, .., 15, then c times 0, 16, .., 240.
/// Its byte 1 is c.
void write_entry(unsigned char coefficient, unsigned char* to) noexcept;

}  // namespace ec::isal
