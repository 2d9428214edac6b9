#include "kernels/x86/backend.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "gf/generator.hpp"
#include "kernels/x86/coefficients.hpp"
#include "kernels/x86/walk.hpp"

namespace ec::kernels::x86 {
namespace {

bool cpu_has(Isa isa) {
  const bool wide = isa == Isa::gfni512 || isa == Isa::avx512;
  return (wide ? __builtin_cpu_supports("avx512bw") : __builtin_cpu_supports("avx2")) &&
         (form_of(isa) == CoefficientForm::shuffle || __builtin_cpu_supports("gfni"));
}

Isa best_isa() {
  for (Isa isa : {Isa::gfni512, Isa::gfni256, Isa::avx512})
    if (cpu_has(isa)) return isa;
  return Isa::avx2;
}

/// Whether targets are to be written past the cache, and can be.
bool streams(unsigned k, std::uint8_t* const* targets, unsigned rows, std::size_t bytes) {
  bool aligned = true;
  for (unsigned r = 0; r < rows; ++r)
    aligned = aligned && reinterpret_cast<std::uintptr_t>(targets[r]) % 64 == 0;
  return aligned && choose_walk(k, rows, bytes, false).stream && may_stream_to(targets, rows, bytes);
}

}  // namespace

X86::X86(std::string_view name, Isa isa) : name_(name), isa_(isa), runs_here_(cpu_has(isa)) {}

bool X86::takes(const Job& job) const noexcept {
  return runs_here_ && job.sources.size() <= gf::max_chunks && job.targets.size() <= gf::max_chunks;
}

bool X86::supports(const Job& job) const noexcept { return takes(job) && host_addressable(job); }

RunResult X86::run(const Job& job, bool accumulate) const noexcept {
  if (!takes(job)) return {Status::unsupported, isa_};
  const std::uint8_t* sources[gf::max_chunks];
  std::uint8_t* targets[gf::max_chunks];
  const unsigned k = static_cast<unsigned>(job.sources.size());
  const unsigned rows = static_cast<unsigned>(job.targets.size());
  unsigned residences = 0;
  const auto list = [&](const auto& chunks, auto* to) {
    for (const auto& chunk : chunks) {
      *to++ = chunk.data;
      residences |= static_cast<unsigned>(chunk.residence);
    }
  };
  list(job.sources, sources);
  list(job.targets, targets);
  static_assert(static_cast<unsigned>(Residence::pinned) == 1 &&
                static_cast<unsigned>(Residence::device) == 2);
  if (residences >= 2) return {Status::unsupported, isa_};
  if (job.bytes == 0 || rows == 0) return {Status::ok, isa_};
  if (k == 0) {
    for (unsigned r = 0; r < rows && !accumulate; ++r) std::memset(targets[r], 0, job.bytes);
    return {Status::ok, isa_};
  }
  const Coefficients* coefficients = coefficients_of(*job.program, form_of(isa_));
  if (coefficients == nullptr) return {Status::fault, isa_};

  std::size_t bytes = job.bytes;
  Isa ran = isa_;
  if (coefficients->transform && isa_ == Isa::gfni512 && !accumulate) {
    const std::size_t whole = bytes / 64 * 64;
    const Transform& transform = *coefficients->transform;
    ran = call_transform({sources, targets, rows, whole, &transform, streams(k, targets, rows, whole),
                          sums_stay(sources, k, this_core())});
    if (whole == bytes) return {Status::ok, ran};
    // A rest of less than a vector is left to products by the matrix.
    for (unsigned s = 0; s < k; ++s) sources[s] += whole;
    for (unsigned r = 0; r < rows; ++r) targets[r] += whole;
    bytes -= whole;
  }
  if (coefficients->first != 0) std::swap(targets[0], targets[coefficients->first]);

  const auto code = [&](unsigned first, unsigned count) {
    const std::uint8_t* const factors =
        coefficients->bytes.data() + std::size_t{first} * k * coefficient_bytes(form_of(isa_));
    const bool is_xor = first == 0 && coefficients->first_is_xor;
    ProductCall call{sources,    targets + first,
                     k,          count,
                     bytes,      factors,
                     is_xor,     coefficients->folded,
                     accumulate, choose_walk(k, count, bytes, accumulate)};
    if (call.walk.stream && !may_stream_to(call.targets, count, bytes)) [[unlikely]]
      call.walk.stream = false;
    return call_kernel(isa_, call);
  };
  if (rows <= max_pass_rows) return {Status::ok, code(0, rows)};
  for (unsigned pass = 0; pass < pass_count(rows); ++pass)
    ran = code(pass_begin(rows, pass), pass_begin(rows, pass + 1) - pass_begin(rows, pass));
  return {Status::ok, ran};
}

// Inlined, the function would give its room to the frame of every call.
[[gnu::noinline]] Isa call_transform(TransformCall call) noexcept {
  alignas(64) std::uint8_t here[tile_sums_bytes];
  constexpr std::align_val_t alignment{64};
  const unsigned lines = call.transform->lines;
  call.tile_bytes = std::min(call.bytes, call.stream ? far_transform_tile_bytes : near_transform_tile_bytes);
  void* const more =
      lines * call.tile_bytes > sizeof here ? operator new(lines* call.tile_bytes, alignment, std::nothrow)
                                            : nullptr;
  call.room = more != nullptr ? static_cast<std::uint8_t*>(more) : here;
  if (more == nullptr) call.tile_bytes = std::min(call.tile_bytes, sizeof here / lines / 64 * 64);
  const Isa ran = transform_gfni512(call);
  operator delete(more, alignment);
  return ran;
}

Isa call_kernel(Isa isa, const ProductCall& call) noexcept {
  static constexpr decltype(&run<Isa::avx2>) kernels[] = {run<Isa::gfni512>, run<Isa::gfni256>,
                                                          run<Isa::avx512>, run<Isa::avx2>};
  return kernels[static_cast<unsigned>(isa)](call);
}

X86& backend() noexcept {
  static_assert(std::is_trivially_destructible_v<X86>);
  static X86 best("x86", best_isa());
  return best;
}

std::span<X86> variants() noexcept {
  static X86 all[] = {{"x86-gfni512", Isa::gfni512},
                      {"x86-gfni256", Isa::gfni256},
                      {"x86-avx512", Isa::avx512},
                      {"x86-avx2", Isa::avx2}};
  return all;
}

}  // namespace ec::kernels::x86
