// Checks and runs launches.
#include "tests/drivers/emulated/emulation.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <regex>
#include <vector>

#include "gf/generator.hpp"
#include "kernels/cuda/generate/generated_args.hpp"
#include "kernels/cuda/kernels/bit_args.hpp"
#include "kernels/cuda/kernels/kernel_args.hpp"
#include "tests/common/oracle.hpp"
#include "tests/drivers/emulated/memory.hpp"

namespace ec::test::emulated {
namespace {

using kernels::cuda::BitKernel;
using kernels::cuda::KernelArgs;
using kernels::cuda::TableKernel;

constexpr unsigned most_shared_bytes = 48 * 1024;  // without asking for more
constexpr unsigned most_threads = 1024;
constexpr unsigned most_grid_y = 65535;

std::map<std::string, Kernel> make_kernels() {
  std::map<std::string, Kernel> known;
  for (const unsigned bytes : {1, 2, 4, 8, 16})
    known["ec_tile_w" + std::to_string(8 * bytes)] = {Kernel::Kind::tile, bytes};
  for (unsigned i = 0; i < std::size(kernels::cuda::bit_kernels); ++i) {
    const BitKernel& kernel = kernels::cuda::bit_kernels[i];
    known["ec_bits_p" + std::to_string(kernel.pairs) + "_q" + std::to_string(kernel.quads) +
          (kernel.half ? "_h1" : "_h0")] = {Kernel::Kind::bits, i};
  }
  for (unsigned i = 0; i < std::size(kernels::cuda::table_kernels); ++i)
    known["ec_table_r" + std::to_string(kernels::cuda::table_kernels[i].rows) + "_" +
          std::to_string(kernels::cuda::table_kernels[i].ones)] = {Kernel::Kind::table, i};
  return known;
}

/// A generated kernel, whose name says its matrix: ec_generated_<technique>_<k>_<m>_one or _many. The kernel
/// is made when it is first asked for. False for other names.
bool add_generated(const std::string& name, std::map<std::string, Kernel>& known) {
  static const auto& form = *new std::regex("ec_generated_(.+)_([0-9]+)_([0-9]+)_(one|many)");
  std::smatch said;
  if (!std::regex_match(name, said, form)) return false;
  const auto technique = gf::parse_technique(said.str(1));
  const auto k = static_cast<unsigned>(std::stoul(said[2])), m = static_cast<unsigned>(std::stoul(said[3]));
  if (!technique || !gf::shape_error(*technique, k, m).empty()) return false;
  const gf::Matrix matrix = gf::coding_matrix(*technique, k, m);
  known[name] = {.kind = Kernel::Kind::generated,
                 .sources = k,
                 .targets = m,
                 .coefficients = {matrix.cells().begin(), matrix.cells().end()},
                 .batch = said[4] == "many"};
  return true;
}

/// Of a kernel for any matrix.
const KernelArgs& args_of(const Launch& l) {
  return *reinterpret_cast<const KernelArgs*>(l.parameter.data());
}

std::uint64_t word_at(const void* words, std::size_t index) {
  std::uint64_t value = 0;
  std::memcpy(&value, static_cast<const std::uint8_t*>(words) + 8 * index, 8);
  return value;
}

/// What a launch does: the same for each stripe.
struct Work {
  unsigned sources = 0, targets = 0;
  std::uint64_t bytes = 0;  ///< of every chunk, as far as the launch codes it
  bool accumulate = false;
  const std::uint8_t* coefficients = nullptr;  ///< row by row, but for `ones` rows of ones before them
  unsigned ones = 0;
  const void* addresses = nullptr;  ///< stripe by stripe: of the sources, then of the targets
  std::uint64_t stripes = 1;
  unsigned classes = 1;  ///< of a paired matrix, of which there are the first class's rows
  unsigned long long* difference = nullptr;
  std::uint64_t first_byte = 0;

  std::size_t chunks() const { return stripes * (sources + targets); }
  std::uint8_t* chunk(std::size_t index) const {
    return reinterpret_cast<std::uint8_t*>(word_at(addresses, index));
  }
  std::uint8_t coefficient(unsigned row, unsigned source) const {
    if (row < ones) return 1;
    return coefficients[(row - ones) / classes * sources + (source ^ row % classes)];
  }
  void code(std::uint64_t stripe, unsigned row) const {
    const std::size_t first = stripe * (sources + targets);
    std::uint8_t* const given = view(chunk(first + sources + row));
    std::vector<std::uint8_t> copy;
    if (difference != nullptr) copy.assign(given, given + bytes);
    std::uint8_t* target = difference != nullptr ? copy.data() : given;
    if (!accumulate && difference == nullptr) std::fill(target, target + bytes, 0);
    for (unsigned s = 0; s < sources; ++s) {
      const std::uint8_t* source = view(chunk(first + s));
      const std::uint8_t c = coefficient(row, s);
      for (std::uint64_t i = 0; i < bytes; ++i) target[i] ^= oracle::mul(c, source[i]);
    }
    const auto byte = std::ranges::find_if(copy, [](auto b) { return b != 0; }) - copy.begin();
    if (difference == nullptr || byte == std::ssize(copy)) return;
    auto* const word = reinterpret_cast<unsigned long long*>(view(difference));
    *word = std::min<unsigned long long>(*word, first_byte + static_cast<std::uint64_t>(byte));
  }
};

const BitKernel& bit_kernel(const Launch& l) { return kernels::cuda::bit_kernels[l.kernel->size]; }
const TableKernel& table_kernel(const Launch& l) { return kernels::cuda::table_kernels[l.kernel->size]; }

Work work_of(const Launch& l) {
  if (l.kernel->kind == Kernel::Kind::generated) {
    const Kernel& p = *l.kernel;
    const std::size_t words = p.batch ? 1 : p.sources + p.targets;
    const void* first = l.parameter.data();
    return {p.sources,
            p.targets,
            word_at(first, words),
            false,
            p.coefficients.data(),
            0,
            p.batch ? view(reinterpret_cast<const void*>(word_at(first, 0))) : first,
            p.batch ? word_at(first, words + 1) : 1};
  }
  const KernelArgs& a = args_of(l);
  const bool tables = l.kernel->kind == Kernel::Kind::table, bits = l.kernel->kind == Kernel::Kind::bits;
  return {a.sources,
          a.targets,
          a.bytes * (bits ? bit_kernel(l).tile_bytes() : 1),
          a.accumulate != 0,
          a.blob + 8 * (a.sources + a.targets),
          tables ? table_kernel(l).ones : 0,
          a.blob,
          1,
          bits ? bit_kernel(l).classes() : 1,
          bits ? nullptr : a.difference,
          a.first_byte};
}

/// Whether the kernel can be given this launch, chunks left aside: CUDA_SUCCESS or what the device answers.
CUresult check_kernel(const Launch& l) {
  const bool one_row = l.block_y == 1 && l.grid_y == 1;
  if (l.kernel->kind == Kernel::Kind::generated) {
    if (l.block_x != kernels::cuda::generated_threads || !one_row) return CUDA_ERROR_INVALID_VALUE;
    const std::uint64_t bytes = work_of(l).bytes;
    return bytes >= kernels::cuda::generated_tile && bytes % 16 == 0 ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  const KernelArgs& a = args_of(l);
  if (l.kernel->kind == Kernel::Kind::bits) {
    const BitKernel& kernel = bit_kernel(l);
    const unsigned most = kernels::cuda::BitBlock(kernel.warps, compute_capability).threads();
    if (l.block_x % 32 != 0 || l.block_x > most || !one_row) return CUDA_ERROR_INVALID_VALUE;
    const bool paired = kernel.pairs != 0;
    const bool whole = a.sources % kernel.classes() == 0 && a.targets % kernel.classes() == 0;
    // A kernel for any matrix takes the sources of full quads for granted.
    const bool fits =
        whole && a.sources <= kernel.most_sources() && a.targets <= kernel.most_targets() &&
        (paired ? a.accumulate == 0 : a.sources >= 4 * kernels::cuda::full_quads(kernel.quads)) &&
        l.shared_bytes >= kernel.shared_bytes(a.targets) &&
        l.shared_bytes + kernels::cuda::bit_count_bytes <= most_shared_bytes;
    return fits ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  if (l.kernel->kind == Kernel::Kind::table) {
    if (l.block_x != kernels::cuda::table_threads || !one_row) return CUDA_ERROR_INVALID_VALUE;
    const std::size_t unit = a.accumulate ? kernels::cuda::table_tile : 16;
    const bool fits = a.targets == table_kernel(l).targets() &&
                      l.shared_bytes >= table_kernel(l).shared_bytes(a.sources) &&
                      a.bytes >= kernels::cuda::table_tile && a.bytes % unit == 0;
    return fits ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  return CUDA_SUCCESS;
}

/// Bytes that the kernel loads at once, which every address is a multiple of.
std::size_t alignment_of(const Launch& l) {
  if (l.kernel->kind == Kernel::Kind::tile) return l.kernel->size;
  // A bit kernel loads 4 x words and stores twice that, 16 at the most.
  if (l.kernel->kind == Kernel::Kind::bits) return std::min(8 * bit_kernel(l).words, 16u);
  return 16;
}

}  // namespace

const Kernel* find_kernel(const std::string& name) {
  static auto& kernels = *new auto(make_kernels());
  auto at = kernels.find(name);
  if (at == kernels.end() && add_generated(name, kernels)) at = kernels.find(name);
  return at == kernels.end() ? nullptr : &at->second;
}

std::size_t parameter_bytes(const Kernel& kernel) {
  if (kernel.kind != Kernel::Kind::generated) return sizeof(KernelArgs);
  const std::size_t addresses = kernel.batch ? 1 : kernel.sources + kernel.targets;
  return 8 * (addresses + 1 + kernel.batch);
}

CUresult check(const Launch& l) {
  if (l.grid_x == 0 || l.grid_y == 0 || l.block_x == 0 || l.block_y == 0) return CUDA_ERROR_INVALID_VALUE;
  if (l.block_x * l.block_y > most_threads || l.grid_y > most_grid_y || l.shared_bytes > most_shared_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult refused = check_kernel(l); refused != CUDA_SUCCESS) return refused;
  if (l.kernel->kind == Kernel::Kind::generated && l.kernel->batch) {
    const Kernel& p = *l.kernel;
    const auto* table = reinterpret_cast<const void*>(word_at(l.parameter.data(), 0));
    if (!reachable(table, 8 * word_at(l.parameter.data(), 2) * (p.sources + p.targets), l.ordinal))
      return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  const Work work = work_of(l);
  if (work.difference != nullptr && !reachable(work.difference, sizeof *work.difference, l.ordinal))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (std::size_t i = 0; i < work.chunks(); ++i) {
    if (reinterpret_cast<std::uintptr_t>(work.chunk(i)) % alignment_of(l) != 0)
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    if (work.bytes != 0 && !reachable(work.chunk(i), work.bytes, l.ordinal))
      return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  return CUDA_SUCCESS;
}

void run(const Launch& l) {
  const Work work = work_of(l);
  // Tile kernels walk the columns in strides of the grid, so that any grid_x covers them; the rows are the
  // grid's.
  unsigned rows = work.targets;
  if (l.kernel->kind == Kernel::Kind::tile)
    rows = std::min(l.grid_y * l.block_y * kernels::cuda::rows_per_thread, rows);
  for (std::uint64_t stripe = 0; stripe < work.stripes; ++stripe)
    for (unsigned row = 0; row < rows; ++row) work.code(stripe, row);
}

}  // namespace ec::test::emulated
