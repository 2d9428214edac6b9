// Lays known stripes out in memory, and compares what calls made of them.
#include "bench/common/stripes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "bench/common/random.hpp"
#include "bench/common/workers.hpp"
#include "kernels/backends.hpp"

namespace ec::bench {
namespace {

using kernels::Source;
using kernels::Status;
using kernels::Target;

constexpr std::uint8_t spoilt = 0x5a;
constexpr std::size_t cache_line = 64;
/// Of a chunk that one core codes at a time.
constexpr std::size_t slice = std::size_t{256} << 10;

/// Decode writes beside the stripe.
unsigned places(const Operation& o) {
  return o.code->k() + o.code->m() + (o.decodes() ? o.program->targets() : 0);
}

std::size_t stride(std::size_t chunk_bytes, std::size_t gap) {
  return (chunk_bytes + cache_line - 1) / cache_line * cache_line + gap;
}

/// Chunks that a back end makes of those at `from`, in slices on all cores. Targets hold `spoilt` before.
std::vector<std::uint8_t> make(const char* backend, const Operation& o, const std::uint8_t* from,
                               std::size_t chunk_bytes) {
  const unsigned targets = o.program->targets();
  std::vector<std::uint8_t> made(targets * chunk_bytes, spoilt);
  in_parallel((chunk_bytes + slice - 1) / slice, [&](std::size_t i) {
    std::vector<Source> sources;
    std::vector<Target> to;
    for (const unsigned c : o.reads) sources.push_back({from + c * chunk_bytes + i * slice});
    for (unsigned t = 0; t < targets; ++t) to.push_back({made.data() + t * chunk_bytes + i * slice});
    const kernels::Job job{o.program, sources, to, std::min(slice, chunk_bytes - i * slice)};
    if (run(*kernels::find_backend(backend), job, o.verb) != Status::ok)
      throw std::runtime_error(fmt::format("{} does not code the known stripe", backend));
  });
  return made;
}

/// What two back ends make alike.
std::vector<std::uint8_t> make_by_two(const Operation& o, const std::uint8_t* from, std::size_t chunk_bytes) {
  auto made = make("reference", o, from, chunk_bytes);
  if (made != make("isal", o, from, chunk_bytes))
    throw std::runtime_error("reference and isal do not make the same bytes");
  return made;
}

}  // namespace

kernels::Status run(kernels::Backend& backend, const kernels::Job& job, kernels::Verb verb) {
  return verb == kernels::Verb::accumulate ? backend.accumulate(job) : backend.transform(job);
}

Operation make_operation(const std::string& op, gf::Technique technique, unsigned k, unsigned m,
                         unsigned erasures) {
  Operation o{.technique = technique, .code = codec::Code::get(technique, k, m)};
  if (op == "update") {
    o.program = &o.code->update_program(0);
    o.reads = {0};
    o.verb = kernels::Verb::accumulate;
  } else if (op == "encode") {
    o.program = &o.code->encode_program();
    o.reads.resize(k);
    std::iota(o.reads.begin(), o.reads.end(), std::uint8_t{0});
  } else {
    o.signature = {gf::ChunkSet::first(k + m), gf::ChunkSet::first(erasures)};
    o.signature.available = o.signature.available - o.signature.wanted;
    o.plan = o.code->plan(o.signature);
    if (!o.plan) throw std::runtime_error(fmt::format("{}+{}: no decode plan for {}", k, m, op));
    o.program = &o.plan->program;
    o.reads = o.plan->sources;
  }
  return o;
}

KnownStripe::KnownStripe(const Operation& o, std::size_t chunk_bytes) : chunk_bytes_(chunk_bytes) {
  const unsigned k = o.code->k();
  bytes_.resize(k * chunk_bytes);
  in_parallel(k, [&](std::size_t i) {
    fill_random({bytes_.data() + i * chunk_bytes, chunk_bytes}, 0x100 + i);
  });
  const auto coding =
      make_by_two(make_operation("encode", o.technique, k, o.code->m(), 0), bytes_.data(), chunk_bytes);
  bytes_.insert(bytes_.end(), coding.begin(), coding.end());
  if (o.verb == kernels::Verb::transform) return;
  const auto updated = make_by_two(o, bytes_.data(), chunk_bytes);
  bytes_.insert(bytes_.end(), updated.begin(), updated.end());
}

std::size_t Stripes::bytes_needed(const Operation& operation, std::size_t chunk_bytes, std::size_t count,
                                  std::size_t gap) {
  return count * places(operation) * stride(chunk_bytes, gap);
}

Stripes::Stripes(const Operation& operation, std::shared_ptr<const KnownStripe> known,
                 std::shared_ptr<const Memory> memory, std::size_t count, std::size_t gap)
    : operation_(operation),
      // Decode makes the first data chunks.
      first_made_(operation.decodes()                           ? 0
                  : operation.verb == kernels::Verb::accumulate ? operation.code->k() + operation.code->m()
                                                                : operation.code->k()),
      known_(std::move(known)),
      memory_(std::move(memory)),
      sources_(count),
      targets_(count) {
  if (bytes_needed(operation_, chunk_bytes(), count, gap) > memory_->size())
    throw std::logic_error("the memory is too small for the stripes");
  const unsigned k = operation_.code->k();
  const unsigned placed = k + operation_.code->m();
  const unsigned first_target = operation_.decodes() ? placed : k;
  const auto address = [&](std::size_t stripe, unsigned chunk) {
    return memory_->data() + (stripe * places(operation_) + chunk) * stride(chunk_bytes(), gap);
  };
  for (std::size_t s = 0; s < count; ++s) {
    for (const unsigned chunk : operation_.reads) sources_[s].push_back({address(s, chunk), residence()});
    for (unsigned t = 0; t < operation_.program->targets(); ++t)
      targets_[s].push_back({address(s, first_target + t), residence()});
  }
  in_parallel(count * placed, [&](std::size_t i) {
    const auto chunk = static_cast<unsigned>(i % placed);
    const auto bytes = known_->chunk(chunk);
    const std::size_t by = turned_by(i / placed);
    memory_->write(address(i / placed, chunk), bytes.subspan(by));
    memory_->write(address(i / placed, chunk) + bytes.size() - by, bytes.first(by));
  });
}

void Stripes::spoil(std::size_t stripe) const {
  const std::vector<std::uint8_t> bytes(chunk_bytes(), spoilt);
  for (const Target& target : targets(stripe)) memory_->write(target.data, bytes);
}

bool Stripes::right(std::size_t stripe) const {
  const std::size_t by = turned_by(stripe);
  std::vector<std::uint8_t> held(chunk_bytes());
  for (unsigned t = 0; t < targets(stripe).size(); ++t) {
    const auto expected = known_->chunk(first_made_ + t);
    const std::uint8_t* at = targets(stripe)[t].data;
    if (residence() == kernels::Residence::device) {
      memory_->read(at, held);
      at = held.data();
    }
    if (std::memcmp(at, expected.data() + by, expected.size() - by) != 0 ||
        std::memcmp(at + expected.size() - by, expected.data(), by) != 0)
      return false;
  }
  return true;
}

}  // namespace ec::bench
