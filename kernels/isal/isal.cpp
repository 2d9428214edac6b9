// Jobs by ISA-L's functions.
#include "kernels/isal/isal.hpp"

#include <isa-l/erasure_code.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <vector>

#include "gf/generator.hpp"
#include "gf/gf256.hpp"
#include "support/never_destroyed.hpp"

namespace ec::kernels {
namespace {

/// ISA-L counts bytes in an int; slices keep a multiple of every vector length.
constexpr std::size_t max_slice_bytes = std::size_t{1} << 30;

/// Whether ISA-L's functions code a few bytes right, by each number of rows that it has a kernel for. A
/// program that exports functions of these names, or a library before ISA-L's that does, gets our calls.
bool codes_right() noexcept {
  constexpr int k = 2, most_rows = 6, bytes = 160;
  unsigned char cells[most_rows * k], tables[most_rows * k * 32];
  unsigned char data[k][bytes], coded[most_rows][bytes], added[most_rows][bytes];
  unsigned char *sources[k], *targets[most_rows], *sums[most_rows];
  unsigned char next = 1;
  for (auto& cell : cells) cell = next += 37;
  for (auto& chunk : data)
    for (auto& byte : chunk) byte = next += 59;
  std::ranges::copy(data, sources);
  std::ranges::copy(coded, targets);
  std::ranges::copy(added, sums);
  for (int rows = 1; rows <= most_rows; ++rows) {
    std::memset(coded, 0xaa, sizeof coded);
    std::memset(added, 0, sizeof added);
    ec_init_tables(k, rows, cells, tables);
    ec_encode_data(bytes, k, rows, tables, sources, targets);
    for (int c = 0; c < k; ++c) ec_encode_data_update(bytes, k, rows, c, tables, sources[c], sums);
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < bytes; ++i) {
        const unsigned char right = gf::mul(cells[r * k], data[0][i]) ^ gf::mul(cells[r * k + 1], data[1][i]);
        if (coded[r][i] != right || added[r][i] != right) return false;
      }
  }
  return true;
}

/// Found out when we are loaded, so that no thread and no child of fork() waits for it later.
const bool usable = codes_right();

/// ISA-L's multiplication tables of one matrix. Opaque: their layout is the library's own affair.
struct Tables final : Expansion {
  explicit Tables(const gf::Matrix& matrix) : bytes(matrix.cells().size() * 32) {
    // ISA-L reads the matrix through a pointer to non-const.
    std::vector<unsigned char> cells(matrix.cells().begin(), matrix.cells().end());
    ec_init_tables(static_cast<int>(matrix.cols()), static_cast<int>(matrix.rows()), cells.data(),
                   bytes.data());
  }
  mutable std::vector<unsigned char> bytes;
};

const Tables* tables_of(const Program& program) noexcept {
  return static_cast<const Tables*>(program.expansion(ExpansionSlot::isal, [&]() -> std::unique_ptr<Tables> {
    try {
      return std::make_unique<Tables>(program.matrix());
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }));
}

using Pointers = std::array<unsigned char*, gf::max_chunks + 1>;

/// ISA-L takes pointers to non-const sources and does not write through them.
void fill_sources(const Job& job, std::size_t offset, Pointers& out) {
  for (std::size_t i = 0; i < job.sources.size(); ++i)
    out[i] = const_cast<unsigned char*>(job.sources[i].data) + offset;
}

void fill_targets(const Job& job, std::size_t offset, Pointers& out) {
  for (std::size_t i = 0; i < job.targets.size(); ++i) out[i] = job.targets[i].data + offset;
}

class Isal final : public Backend {
 public:
  std::string_view name() const noexcept override { return "isal"; }

  bool supports(const Job& job) const noexcept override {
    // With no source at all ISA-L reads through a pointer that is not there.
    return usable && host_addressable(job) && !job.sources.empty() && job.sources.size() <= gf::max_chunks &&
           job.targets.size() <= gf::max_chunks;
  }

  Status transform(const Job& job) noexcept override {
    return run(job, [&](unsigned char* tables, int bytes, Pointers& sources, Pointers& targets) {
      ec_encode_data(bytes, static_cast<int>(job.sources.size()), static_cast<int>(job.targets.size()),
                     tables, sources.data(), targets.data());
    });
  }

  Status accumulate(const Job& job) noexcept override {
    return run(job, [&](unsigned char* tables, int bytes, Pointers& sources, Pointers& targets) {
      const int k = static_cast<int>(job.sources.size());
      for (int i = 0; i < k; ++i)
        ec_encode_data_update(bytes, k, static_cast<int>(job.targets.size()), i, tables, sources[i],
                              targets.data());
    });
  }

 private:
  template <class Call>
  Status run(const Job& job, Call&& call) noexcept {
    if (!supports(job)) return Status::unsupported;
    if (job.bytes == 0 || job.targets.empty()) return Status::ok;
    const Tables* tables = tables_of(*job.program);
    if (tables == nullptr) return Status::fault;
    Pointers sources;
    Pointers targets;
    for (std::size_t done = 0; done < job.bytes; done += max_slice_bytes) {
      fill_sources(job, done, sources);
      fill_targets(job, done, targets);
      const int bytes = static_cast<int>(std::min(max_slice_bytes, job.bytes - done));
      call(tables->bytes.data(), bytes, sources, targets);
    }
    return Status::ok;
  }
};

}  // namespace

Backend& isal_backend() noexcept {
  static constinit NeverDestroyed<Isal> backend;
  return backend.value;
}

}  // namespace ec::kernels
