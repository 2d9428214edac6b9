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

/// A job as the kernels take it.
struct HostJob {
  Isa isa;
  const Coefficients& coefficients;
  const std::uint8_t** sources;
  std::uint8_t** targets;
  unsigned k, rows;
  std::size_t bytes;
  bool accumulate;
};

/// `count` rows from `first` on, at most max_pass_rows.
[[gnu::always_inline]] inline Isa code_rows(const HostJob& job, unsigned first, unsigned count) {
  const Coefficients& coefficients = job.coefficients;
  if (first == 0 && coefficients.first != 0) std::swap(job.targets[0], job.targets[coefficients.first]);
  const std::uint8_t* const factors =
      coefficients.bytes.data() + std::size_t{first} * job.k * coefficient_bytes(form_of(job.isa));
  ProductCall call{job.sources,
                   job.targets + first,
                   job.k,
                   count,
                   job.bytes,
                   factors,
                   first == 0 && coefficients.first_is_xor,
                   coefficients.folded,
                   job.accumulate,
                   choose_walk(job.k, count, job.bytes, job.accumulate)};
  if (call.walk.stream && !may_stream_to(call.targets, count, job.bytes)) [[unlikely]]
    call.walk.stream = false;
  return call_kernel(job.isa, call);
}

/// By a transform, or in several passes. Out of line: short calls of one pass have more registers then (a Zen
/// 5, apply_delta of Ceph 20, 4+2 of 1 KiB: 34.9 ns, else 37.0).
[[gnu::noinline]] Isa code_long(HostJob job) {
  Isa ran = job.isa;
  if (job.coefficients.transform && job.isa == Isa::gfni512 && !job.accumulate) {
    const std::size_t whole = job.bytes / 64 * 64;
    ran = call_transform({job.sources, job.targets, job.rows, whole, job.coefficients.transform.get(),
                          streams(job.k, job.targets, job.rows, whole),
                          sums_stay(job.sources, job.k, this_core())});
    if (whole == job.bytes) return ran;
    // A rest of less than a vector is left to products by the matrix.
    for (unsigned s = 0; s < job.k; ++s) job.sources[s] += whole;
    for (unsigned r = 0; r < job.rows; ++r) job.targets[r] += whole;
    job.bytes -= whole;
  }
  for (unsigned pass = 0; pass < pass_count(job.rows); ++pass) {
    const unsigned first = pass_begin(job.rows, pass);
    ran = code_rows(job, first, pass_begin(job.rows, pass + 1) - first);
  }
  return ran;
}

}  // namespace

X86::X86(std::string_view name, Isa isa) : name_(name), isa_(isa), runs_here_(cpu_has(isa)) {}

bool X86::takes(const Job& job) const noexcept {
  return runs_here_ && job.sources.size() <= gf::max_chunks && job.targets.size() <= gf::max_chunks;
}

bool X86::supports(const Job& job) const noexcept { return takes(job) && host_addressable(job); }

Status X86::run(const Job& job, Verb verb, Isa* ran) const noexcept {
  if (!takes(job)) return Status::unsupported;
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
  if (residences >= 2) return Status::unsupported;
  if (job.bytes == 0 || rows == 0) return Status::ok;
  if (k == 0) {
    for (unsigned r = 0; r < rows && verb != Verb::accumulate; ++r) std::memset(targets[r], 0, job.bytes);
    return Status::ok;
  }
  const Coefficients* coefficients = coefficients_of(*job.program, form_of(isa_));
  if (coefficients == nullptr) return Status::fault;

  const HostJob host{isa_, *coefficients, sources, targets, k, rows, job.bytes, verb == Verb::accumulate};
  const bool one_pass = !coefficients->transform && rows <= max_pass_rows;
  const Isa isa = one_pass ? code_rows(host, 0, rows) : code_long(host);
  if (ran != nullptr) *ran = isa;
  return Status::ok;
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
