// Jobs by the functions of ISA-L, which is opened when we are loaded.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

#include "gf/generator.hpp"
#include "gf/gf256.hpp"
#include "kernels/backends.hpp"

namespace ec::kernels {
namespace {

/// ISA-L counts bytes in an int; slices keep a multiple of every vector length.
constexpr std::size_t max_slice_bytes = std::size_t{1} << 30;

template <class Function>
bool find(void* library, const char* name, Function*& function) noexcept {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

/// A scope in which a library calls its own functions though the program exports some of their names. This
/// scope would end a program that has a sanitizer.
int own_scope() noexcept {
  return dlsym(RTLD_DEFAULT, "__sanitizer_print_stack_trace") != nullptr ? RTLD_LOCAL
                                                                         : RTLD_LOCAL | RTLD_DEEPBIND;
}

/// As in isa-l/erasure_code.h. The tables of init_tables are for these functions alone.
struct Functions {
  void (*init_tables)(int k, int rows, unsigned char* matrix, unsigned char* tables);
  void (*encode)(int bytes, int k, int rows, unsigned char* tables, unsigned char** sources,
                 unsigned char** targets);
  void (*update)(int bytes, int k, int rows, int column, unsigned char* tables, unsigned char* source,
                 unsigned char** targets);
};

/// Null pointers where there is no ISA-L. The library stays open for good.
Functions find_functions() noexcept {
  // The SONAME of all releases from 2.30 on.
  void* const library = dlopen("libisal.so.2", RTLD_NOW | RTLD_NODELETE | own_scope());
  if (library == nullptr) return {};
  Functions found{};
  const bool all = find(library, "ec_init_tables", found.init_tables) &&
                   find(library, "ec_encode_data", found.encode) &&
                   find(library, "ec_encode_data_update", found.update);
  return all ? found : Functions{};
}

/// Found at load, before a host forks.
const Functions functions = find_functions();

/// Whether the functions code a few bytes right, by each number of rows that ISA-L has a kernel for. Another
/// library may go by this name.
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
    functions.init_tables(k, rows, cells, tables);
    functions.encode(bytes, k, rows, tables, sources, targets);
    for (int c = 0; c < k; ++c) functions.update(bytes, k, rows, c, tables, sources[c], sums);
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < bytes; ++i) {
        const unsigned char right = gf::mul(cells[r * k], data[0][i]) ^ gf::mul(cells[r * k + 1], data[1][i]);
        if (coded[r][i] != right || added[r][i] != right) return false;
      }
  }
  return true;
}

const bool usable = functions.encode != nullptr && codes_right();

/// ISA-L's multiplication tables of one matrix. Opaque: their layout is the library's own affair.
struct Tables final : Expansion {
  explicit Tables(const gf::Matrix& matrix) : bytes(matrix.cells().size() * 32) {
    // ISA-L reads the matrix through a pointer to non-const.
    std::vector<unsigned char> cells(matrix.cells().begin(), matrix.cells().end());
    functions.init_tables(static_cast<int>(matrix.cols()), static_cast<int>(matrix.rows()), cells.data(),
                          bytes.data());
  }
  mutable std::vector<unsigned char> bytes;
};

class Isal final : public Backend {
 public:
  std::string_view name() const noexcept override { return "isal"; }
  BackendKind kind() const noexcept override { return BackendKind::judge; }

  bool supports(const Job& job) const noexcept override {
    // Without a source ISA-L reads through a pointer that does not exist.
    return usable && host_addressable(job) && !job.sources.empty() && job.sources.size() <= gf::max_chunks &&
           job.targets.size() <= gf::max_chunks;
  }

  Status code(const Job& job, Verb verb) noexcept override {
    if (!supports(job)) return Status::unsupported;
    if (job.bytes == 0 || job.targets.empty()) return Status::ok;
    const auto* tables = static_cast<const Tables*>(job.program->expansion(
        ExpansionSlot::isal, [&] { return std::make_unique<Tables>(job.program->matrix()); }));
    if (tables == nullptr) return Status::fault;
    const int k = static_cast<int>(job.sources.size()), rows = static_cast<int>(job.targets.size());
    unsigned char* coefficients = tables->bytes.data();
    std::array<unsigned char*, gf::max_chunks> sources, targets;
    for (std::size_t done = 0; done < job.bytes; done += max_slice_bytes) {
      // ISA-L takes pointers to non-const sources and does not write through them.
      for (std::size_t i = 0; i < job.sources.size(); ++i)
        sources[i] = const_cast<unsigned char*>(job.sources[i].data) + done;
      for (std::size_t i = 0; i < job.targets.size(); ++i) targets[i] = job.targets[i].data + done;
      const int bytes = static_cast<int>(std::min(max_slice_bytes, job.bytes - done));
      if (verb == Verb::transform)
        functions.encode(bytes, k, rows, coefficients, sources.data(), targets.data());
      else
        for (int i = 0; i < k; ++i)
          functions.update(bytes, k, rows, i, coefficients, sources[static_cast<unsigned>(i)],
                           targets.data());
    }
    return Status::ok;
  }
};

}  // namespace

std::string_view missing_backend() noexcept {
  if (usable) return {};
  return functions.encode == nullptr ? "libisal.so.2 is not found or lacks functions"
                                     : "libisal.so.2 codes wrong bytes";
}

Backend& isal_backend() noexcept {
  static_assert(std::is_trivially_destructible_v<Isal>);
  static constinit Isal backend;
  return backend;
}

}  // namespace ec::kernels
