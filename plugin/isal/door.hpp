// ISA-L's operations on tables, by our kernels or by the real library, whoever is faster.
#pragma once

#include <atomic>
#include <cstddef>

#include "kernels/x86/backend.hpp"
#include "plugin/isal/real.hpp"

namespace ec::isal {

/// One call of ec_encode_data. tables: k * rows entries in the classic layout, row by row.
struct Call {
  int bytes = 0;
  int k = 0;
  int rows = 0;
  unsigned char* tables = nullptr;
  unsigned char** sources = nullptr;
  unsigned char** targets = nullptr;
};

/// Tables of a matrix with k columns, in the classic layout.
struct Tables {
  const unsigned char* first;
  int k;

  /// The coefficients of those rows and columns, row by row: byte 1 of every entry.
  void read(unsigned row, unsigned rows, unsigned column, unsigned columns, unsigned char* to) const noexcept;
};

/// Without state but for `off`: what it needs of a table is read anew in every call, so tables may be copied,
/// entered at a later row and freed. Chunks may have any alignment. Thread safe; allocates nothing but in a
/// call that is checked.
class Door {
 public:
  /// ours: codes what it can. every: one call in so many of a thread's that our kernels code is compared with
  /// the real library, which is right; 0: none.
  Door(const Real& real, const kernels::x86::X86& ours, unsigned every);

  /// ec_encode_data. What ISA-L does where targets overlap sources or each other depends on its version, so
  /// such calls are the real library's. Here and in update() nothing is done for lengths and numbers of rows
  /// of 0 and less; with less than 0 ISA-L 2.32 ends the process.
  void encode(const Call& call) noexcept;

  /// ec_encode_data_update, always by the real library. It reads a source and reads and writes all targets,
  /// so memory decides. Measured on a Xeon with GFNI against ISA-L 2.30: ours reach 0.2 to 1.05 of it in
  /// chunks up to 64 KiB that a cache holds, 0.95 to 1.15 in those that none holds.
  void update(int bytes, int k, int rows, int column, unsigned char* tables, unsigned char* source,
              unsigned char** targets) const noexcept;

  /// gf_vect_mul. Nothing, and 0, for lengths of 0 and less. The real library's for lengths that are no
  /// multiple of 32, which it may refuse, and for chunks that overlap.
  int multiply(int bytes, unsigned char* table, void* source, void* target) noexcept;

  const ec_isal_functions& real() const noexcept { return real_; }

  /// Whether everything is the real library's: this CPU runs none of our kernels, or they were wrong once.
  bool is_off() const noexcept { return off_.load(std::memory_order_relaxed); }

 private:
  bool is_real_ones(const Call& call) const noexcept;
  void by_ours(const Call& call) const noexcept;
  void by_real(const Call& call) const noexcept;
  /// Where the real library does not read the caller's tables.
  void encode_with_its_tables(const Call& call) const noexcept;
  void update_with_its_tables(int bytes, Tables tables, int rows, int column, unsigned char* source,
                              unsigned char** targets) const noexcept;
  void checked(const Call& call) noexcept;
  enum class Finding : unsigned char { right, wrong, unknown };
  /// Compares the bytes [offset, offset + bytes) of the targets with what the real library makes.
  Finding compare(const Call& call, std::size_t offset, std::size_t bytes) const noexcept;

  const Real real_;
  const kernels::x86::Isa ours_;
  const unsigned every_;
  const std::size_t in_backends_;  ///< where kernels::backends() has ours
  std::atomic<bool> off_;
};

}  // namespace ec::isal
