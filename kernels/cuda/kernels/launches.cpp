// Chooses among the kernels, has the tile kernels code another kernel's rest, and launches these and
// generated ones.
#include "kernels/cuda/kernels/launches.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "gf/generator.hpp"

namespace ec::kernels::cuda {
namespace {

/// Whether the tensor cores take these chunks over the link to the host. Arithmetic costs nothing there. The
/// best kernel is short and asks for few bytes at a time (H200, one call, us, generated kernels against the
/// tensor cores: 8+3, 4 KiB 17.1 to 14.5, 1 MiB 194 to 192; 32+8, 4 KiB 31.6 to 20.3, 256 KiB 223 to 196).
/// Long jobs in company are better off generated: eight threads, 8+3, 1 MiB, 49 GB/s against 47.
bool tensor_cores_win_over_link(const Work& work) {
  constexpr std::size_t long_bytes = std::size_t{4} << 20;
  const ChunkViews& chunks = work.chunks;
  if (chunks.link_jobs == 0 || (chunks.link_jobs > 1 && chunks.bytes * chunks.sources.size() >= long_bytes))
    return false;
  const BitKernel* const kernel = bit_kernel_for(work.device, work.matrix, 0, 0);
  return kernel != nullptr && bit_kernel_reach(*kernel, chunks) == chunks.bytes;
}

/// Launches the fastest kernel that takes at least the start of these chunks. *done becomes the bytes that
/// the kernel codes.
CUresult launch_best(const Work& work, KernelKind kind, std::size_t* done) {
  const bool automatic = kind == KernelKind::automatic;
  Work start = work;
  /// Whether the kernel codes anything; `start` is its part.
  const auto reaches = [&](std::size_t bytes) {
    *done = start.chunks.bytes = bytes;
    return bytes != 0;
  };
  const auto table_reaches = [&] { return reaches(table_kernel_reach(work.chunks, work.verb)); };
  if (work.verb == Verb::compare)
    return kind != KernelKind::tile && table_reaches() ? launch_tables(start) : CUDA_SUCCESS;
  const bool transforms = work.verb == Verb::transform;
  const bool others = automatic && !tensor_cores_win_over_link(work);
  if (transforms && (kind == KernelKind::generated || others)) {
    const GeneratedKernel* generated = work.device.generated_kernel(work.matrix);
    if (generated != nullptr && reaches(generated_kernel_reach(work.chunks)))
      return launch_generated(start, *generated);
  }
  if ((kind == KernelKind::table || (others && table_kernel_pays(work))) && table_reaches())
    return launch_tables(start);
  if (kind == KernelKind::bits || kind == KernelKind::paired || automatic) {
    const unsigned most_pairs = kind == KernelKind::bits || !transforms ? 0 : 3;
    const auto* kernel = bit_kernel_for(work.device, work.matrix, kind == KernelKind::paired, most_pairs);
    if (kernel != nullptr && reaches(bit_kernel_reach(*kernel, work.chunks)))
      return launch_bits(start, *kernel);
  }
  return CUDA_SUCCESS;
}

constexpr unsigned columns = 128;
constexpr unsigned most_row_groups = 4;
constexpr unsigned blocks_per_multiprocessor = 8;

unsigned ceil_div(std::size_t a, std::size_t b) { return static_cast<unsigned>((a + b - 1) / b); }

/// See tile_kernel.cu.
CUresult launch_rows(const Work& work, unsigned first, unsigned count) {
  KernelArgs args = args_for(work, first, count);
  const std::size_t bytes = work.chunks.bytes;
  const unsigned multiprocessors = work.device.info().multiprocessors;
  auto word_bytes = static_cast<unsigned>(std::min<std::size_t>(work.chunks.alignment(), tile_words.back()));
  // Small chunks: narrower words before idle multiprocessors.
  const std::size_t threads_to_fill = std::size_t{columns} * multiprocessors;
  while (word_bytes > 4 && bytes / word_bytes < threads_to_fill) word_bytes /= 2;
  const unsigned row_groups = std::min(ceil_div(count, rows_per_thread), most_row_groups);
  const unsigned grid_x = std::min(ceil_div(bytes, std::size_t{word_bytes} * columns),
                                   blocks_per_multiprocessor * multiprocessors);
  const unsigned grid_y = ceil_div(count, std::size_t{rows_per_thread} * row_groups);
  void* parameters[] = {&args};
  return work.device.driver().launch_kernel(
      work.device.tile_kernel(static_cast<unsigned>(std::countr_zero(word_bytes))), grid_x, grid_y, 1,
      columns, row_groups, 1, 0, work.stream, parameters, nullptr);
}

}  // namespace

/// Fewer blocks over the link: just enough warps to keep it busy, so that the first warps write while others
/// read, and all jobs on the link have their share. (H200, 8+3, chunks of 1 MiB: 46 GB/s with 64 to 256
/// warps, 38 with a warp for each tile, where all read before any writes. Eight threads, chunks of 64 KiB: 44
/// GB/s with an eighth of the warps each, 38 with all warps.)
CUresult launch_warps(const Work& work, CUfunction function, const Grid& grid, void* args) {
  /// Bytes read ahead of the writes; a few times the need of 50 GB/s and 2 us.
  constexpr std::size_t in_flight_bytes = 768 * 1024;
  constexpr std::size_t least_in_flight_bytes = 128 * 1024;
  constexpr std::size_t most_blocks = std::size_t{1} << 30;
  const ChunkViews& chunks = work.chunks;
  const std::size_t warps = grid.threads / 32;
  const std::size_t tiles = (chunks.bytes + grid.tile_bytes - 1) / grid.tile_bytes * grid.stripes;
  std::size_t blocks = std::min(
      {(tiles + warps - 1) / warps, most_blocks, grid.most_blocks * work.device.info().multiprocessors});
  if (chunks.link_jobs != 0) {
    const std::size_t share = std::max(in_flight_bytes / chunks.link_jobs, least_in_flight_bytes);
    const std::size_t most = share / (grid.tile_bytes * std::size_t{std::max(work.matrix.cols(), 1u)});
    blocks = std::min(blocks, std::max<std::size_t>(most / warps, 4));
  }
  return work.device.driver().launch_kernel(function, static_cast<unsigned>(blocks), 1, 1, grid.threads, 1, 1,
                                            static_cast<unsigned>(grid.shared_bytes), work.stream, &args,
                                            nullptr);
}

std::size_t ChunkViews::alignment() const {
  std::uintptr_t addresses = 4096;
  for (const auto* p : sources) addresses |= reinterpret_cast<std::uintptr_t>(p + first);
  for (const auto* p : targets) addresses |= reinterpret_cast<std::uintptr_t>(p + first);
  return std::size_t{1} << std::countr_zero(addresses);
}

std::uint8_t* begin_args(KernelArgs& args, const ChunkViews& chunks, Verb verb) {
  args.bytes = chunks.bytes;
  args.sources = static_cast<std::uint32_t>(chunks.sources.size());
  args.targets = static_cast<std::uint32_t>(chunks.targets.size());
  args.accumulate = verb == Verb::accumulate;
  args.difference = verb == Verb::compare ? chunks.difference : nullptr;
  args.first_byte = chunks.first_byte + chunks.first;
  std::uint8_t* blob = args.blob;
  const auto add = [&](const std::uint8_t* p) {
    p += chunks.first;
    std::memcpy(blob, &p, sizeof p);
    blob += sizeof p;
  };
  std::ranges::for_each(chunks.sources, add);
  std::ranges::for_each(chunks.targets, add);
  return blob;
}

KernelArgs args_for(const Work& work, unsigned first, unsigned count, unsigned step) {
  ChunkViews chunks = work.chunks;
  chunks.targets = chunks.targets.subspan(first, count);
  KernelArgs args;
  std::uint8_t* coefficients = begin_args(args, chunks, work.verb);
  for (unsigned r = 0; r < count; r += step)
    coefficients = std::ranges::copy(work.matrix.row(first + r), coefficients).out;
  return args;
}

std::size_t generated_kernel_reach(const ChunkViews& chunks) {
  if (chunks.bytes < generated_tile || chunks.alignment() < load_alignment) return 0;
  return chunks.bytes / load_alignment * load_alignment;
}

CUresult launch_generated(const Work& work, const GeneratedKernel& kernel, CUdeviceptr table,
                          std::size_t stripes) {
  // See generated_args.hpp. A kernel for one stripe takes no number of stripes.
  std::array<std::uint64_t, 2 * gf::max_chunks + 2> parameter;
  std::uint64_t* end = parameter.data();
  if (table != 0) *end++ = table;
  for (const auto* p : work.chunks.sources) *end++ = reinterpret_cast<std::uint64_t>(p);
  for (const auto* p : work.chunks.targets) *end++ = reinterpret_cast<std::uint64_t>(p);
  *end++ = work.chunks.bytes;
  *end = stripes;
  // A warp a tile: measured ahead of a grid that stays and loops.
  constexpr std::size_t any = std::size_t{1} << 30;
  return launch_warps(work, table == 0 ? kernel.one : kernel.many,
                      {generated_threads, generated_tile, any, 0, stripes}, parameter.data());
}

CUresult launch_tiles(const Work& work) {
  const auto rows = static_cast<unsigned>(work.chunks.targets.size());
  unsigned most = rows;
  while (!KernelArgs::fit(work.chunks.sources.size(), most)) --most;
  for (unsigned first = 0; first < rows; first += most)
    if (const auto r = launch_rows(work, first, std::min(most, rows - first)); r != CUDA_SUCCESS) return r;
  return CUDA_SUCCESS;
}

CUresult launch_stripe(const Work& work, KernelKind kind) noexcept {
  std::size_t done = 0;
  if (const auto r = launch_best(work, kind, &done); r != CUDA_SUCCESS) return r;
  if (done == work.chunks.bytes) return CUDA_SUCCESS;
  Work rest = work;
  rest.chunks.first += done;
  rest.chunks.bytes -= done;
  return launch_tiles(rest);
}

}  // namespace ec::kernels::cuda
