// Chooses among the kernels, has the tile kernels code another kernel's rest, and launches generated ones.
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
bool tensor_cores_win_over_link(const Device& device, const ChunkViews& chunks) {
  constexpr std::size_t long_bytes = std::size_t{4} << 20;
  const bool alone = chunks.link_jobs == 1;
  return chunks.link_jobs != 0 && (alone || chunks.bytes * chunks.sources.size() < long_bytes) &&
         bit_kernel_reach(device, chunks) == chunks.bytes;
}

/// Launches the fastest kernel that takes at least the start of these chunks. *done becomes the bytes that
/// the kernel codes.
CUresult launch_best(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks, Verb verb,
                     KernelKind kind, CUstream stream, std::size_t* done) {
  const bool automatic = kind == KernelKind::automatic;
  const auto first = [&](std::size_t bytes) {
    ChunkViews views = chunks;
    views.bytes = bytes;
    return views;
  };
  const bool tensor_cores = automatic && tensor_cores_win_over_link(device, chunks);
  *done = 0;
  if (verb == Verb::compare) {
    if (kind != KernelKind::tile) *done = table_kernel_reach(chunks, verb);
    return *done == 0 ? CUDA_SUCCESS : launch_tables(device, matrix, first(*done), verb, stream);
  }
  if (verb == Verb::transform && (kind == KernelKind::generated || (automatic && !tensor_cores))) {
    const GeneratedKernel* generated = device.generated_kernel(matrix);
    if (generated != nullptr) *done = generated_kernel_reach(chunks);
    if (*done != 0) return launch_generated(device, generated->one, first(*done), stream);
  }
  if (kind == KernelKind::table || (automatic && !tensor_cores && table_kernel_pays(matrix))) {
    *done = table_kernel_reach(chunks, verb);
    if (*done != 0) return launch_tables(device, matrix, first(*done), verb, stream);
  }
  if (verb == Verb::transform && (kind == KernelKind::paired || automatic)) {
    const unsigned below = automatic ? bit_kernel_steps(matrix) : ~0u;
    if (const PairedShape* shape = paired_shape_for(device, matrix, below)) {
      *done = paired_kernel_reach(*shape, chunks);
      if (*done != 0) return launch_paired(device, *shape, matrix, first(*done), stream);
    }
  }
  if (kind == KernelKind::bits || automatic) {
    *done = bit_kernel_reach(device, chunks);
    if (*done != 0) return launch_bits(device, matrix, first(*done), verb, stream);
  }
  return CUDA_SUCCESS;
}

/// See generated_args.hpp: addresses, bytes, stripes, unused words.
using ProgramParameter = std::array<std::uint64_t, 2 * gf::max_chunks + 2 + generated_unused_bytes / 8>;

/// `end`: the end of the filled part of `parameter`.
CUresult launch_program(const Device& device, CUfunction function, ProgramParameter& parameter,
                        std::uint64_t* end, const ChunkViews& each, std::size_t stripes, CUstream stream) {
  *end++ = each.bytes;
  *end++ = stripes;
  std::fill_n(end, generated_unused_bytes / 8, 0);
  // A warp a tile: measured ahead of a grid that stays and loops.
  constexpr std::size_t warps = generated_threads / 32;
  const std::size_t tiles = (each.bytes + generated_tile - 1) / generated_tile * stripes;
  const unsigned blocks = blocks_for(each, (tiles + warps - 1) / warps, generated_threads, generated_tile);
  return launch_blocks(device, function, blocks, generated_threads, 0, stream, parameter.data());
}

}  // namespace

unsigned blocks_for(const ChunkViews& chunks, std::size_t blocks, unsigned threads, std::size_t tile_bytes) {
  /// Bytes read ahead of the writes; a few times the need of 50 GB/s and 2 us.
  constexpr std::size_t in_flight_bytes = 768 * 1024;
  constexpr std::size_t least_in_flight_bytes = 128 * 1024;
  constexpr std::size_t most_blocks = std::size_t{1} << 30;
  if (chunks.link_jobs != 0) {
    const std::size_t share = std::max(in_flight_bytes / chunks.link_jobs, least_in_flight_bytes);
    const std::size_t warps = share / (tile_bytes * std::max<std::size_t>(chunks.sources.size(), 1));
    blocks = std::min(blocks, std::max<std::size_t>(warps / (threads / 32), 4));
  }
  return static_cast<unsigned>(std::min(blocks, most_blocks));
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
  args.tile_depth = 0;
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

KernelArgs args_for(const ChunkViews& chunks, const gf::Matrix& matrix, unsigned first_row, Verb verb) {
  KernelArgs args;
  std::uint8_t* coefficients = begin_args(args, chunks, verb);
  for (unsigned r = 0; r < chunks.targets.size(); ++r)
    coefficients = std::ranges::copy(matrix.row(first_row + r), coefficients).out;
  return args;
}

std::size_t generated_kernel_reach(const ChunkViews& chunks) {
  if (chunks.bytes < generated_tile || chunks.alignment() < load_alignment) return 0;
  return chunks.bytes / load_alignment * load_alignment;
}

CUresult launch_generated(const Device& device, CUfunction function, const ChunkViews& chunks,
                          CUstream stream) {
  ProgramParameter parameter;
  std::uint64_t* end = parameter.data();
  for (const auto* p : chunks.sources) *end++ = reinterpret_cast<std::uint64_t>(p);
  for (const auto* p : chunks.targets) *end++ = reinterpret_cast<std::uint64_t>(p);
  return launch_program(device, function, parameter, end, chunks, 1, stream);
}

CUresult launch_generated_batch(const Device& device, CUfunction function, CUdeviceptr table,
                                const ChunkViews& each, std::size_t stripes, CUstream stream) {
  ProgramParameter parameter{table};
  return launch_program(device, function, parameter, parameter.data() + 1, each, stripes, stream);
}

CUresult launch_stripe(const Device& device, const gf::Matrix& matrix, const ChunkViews& chunks, Verb verb,
                       KernelKind kind, CUstream stream) noexcept {
  std::size_t done = 0;
  if (const auto r = launch_best(device, matrix, chunks, verb, kind, stream, &done); r != CUDA_SUCCESS)
    return r;
  if (done == chunks.bytes) return CUDA_SUCCESS;
  ChunkViews rest = chunks;
  rest.first += done;
  rest.bytes -= done;
  return launch_tiles(device, matrix, rest, verb, stream);
}

}  // namespace ec::kernels::cuda
