#include "kernels/isal/isal.hpp"

#include <isa-l/erasure_code.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <vector>

#include "gf/generator.hpp"

namespace ec::kernels {
namespace {

/// ISA-L counts bytes in an int; slices keep a multiple of every vector length.
constexpr std::size_t max_slice_bytes = std::size_t{1} << 30;

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
    return host_addressable(job) && !job.sources.empty() && job.sources.size() <= gf::max_chunks &&
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
  static Isal backend;
  return backend;
}

}  // namespace ec::kernels
