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

std::size_t stride(std::size_t chunk_bytes, std::size_t gap) {
  return (chunk_bytes + cache_line - 1) / cache_line * cache_line + gap;
}

/// The coding chunks that a back end makes of the data chunks at `from`, in slices on all cores.
std::vector<std::uint8_t> encode(const char* backend, codec::Code& code, const std::uint8_t* from,
                                 std::size_t chunk_bytes) {
  std::vector<std::uint8_t> made(code.m() * chunk_bytes);
  in_parallel((chunk_bytes + slice - 1) / slice, [&](std::size_t i) {
    std::vector<Source> sources;
    std::vector<Target> targets;
    for (unsigned c = 0; c < code.k(); ++c) sources.push_back({from + c * chunk_bytes + i * slice, {}});
    for (unsigned t = 0; t < code.m(); ++t) targets.push_back({&made[t * chunk_bytes + i * slice], {}});
    const std::size_t bytes = std::min(slice, chunk_bytes - i * slice);
    if (kernels::find_backend(backend)->transform({&code.encode_program(), sources, targets, bytes}) !=
        Status::ok)
      throw std::runtime_error(fmt::format("{} does not code the known stripe", backend));
  });
  return made;
}

std::vector<std::uint8_t> make_known_stripe(codec::Code& code, std::size_t chunk_bytes) {
  std::vector<std::uint8_t> bytes(code.k() * chunk_bytes);
  in_parallel(code.k(), [&](std::size_t i) { fill_random({&bytes[i * chunk_bytes], chunk_bytes}, i); });
  const auto coding = encode("reference", code, bytes.data(), chunk_bytes);
  if (coding != encode("isal", code, bytes.data(), chunk_bytes))
    throw std::runtime_error("reference and isal do not make the same bytes");
  bytes.insert(bytes.end(), coding.begin(), coding.end());
  return bytes;
}

}  // namespace

Operation make_operation(const Case& c, unsigned lost_coding) {
  const auto [k, m] = Shape(c.k, c.m);
  Operation o{.technique = c.technique, .code = codec::Code::get(c.technique, k, m)};
  if (c.op == "encode") {
    o.program = &o.code->encode_program();
    o.reads.resize(k);
    std::iota(o.reads.begin(), o.reads.end(), std::uint8_t{0});
  } else {
    o.signature = {gf::ChunkSet::first(k + m), gf::ChunkSet::first(std::min(k, m) - lost_coding)};
    for (unsigned i = 0; i < lost_coding; ++i) o.signature.wanted.insert(k + i);
    o.signature.available = o.signature.available - o.signature.wanted;
    o.plan = o.code->plan(o.signature);
    if (!o.plan) throw std::runtime_error(fmt::format("{}+{}: no decode plan for {}", k, m, c.op));
    o.program = &o.plan->program;
    o.reads = o.plan->sources;
  }
  return o;
}

Buffer allocate(kernels::Residence residence, std::size_t bytes, std::size_t device_index) {
  auto memory = Buffer::allocate(bytes, residence, device_index);
  if (!memory)
    throw std::runtime_error(
        fmt::format("no {} memory of {} bytes on this machine", kernels::name(residence), bytes));
  return memory;
}

std::size_t Stripes::bytes_of_one(const Operation& o, std::size_t chunk_bytes, std::size_t gap) {
  // Decode writes beside the stripe.
  return (o.code->k() + o.code->m() + (o.decodes() ? o.program->targets() : 0)) * stride(chunk_bytes, gap);
}

Stripes::Stripes(const Operation& operation, std::size_t chunk_bytes, kernels::Residence residence,
                 std::size_t count, std::size_t gap)
    : operation_(operation),
      chunk_bytes_(chunk_bytes),
      known_(make_known_stripe(*operation.code, chunk_bytes)),
      memory_(allocate(residence, count * bytes_of_one(operation, chunk_bytes, gap))),
      sources_(count),
      targets_(count),
      source_addresses_(count),
      target_addresses_(count) {
  const unsigned k = operation_.code->k();
  const unsigned placed = k + operation_.code->m();
  const unsigned first_target = operation_.decodes() ? placed : k;
  const auto address = [&](std::size_t stripe, unsigned chunk) {
    return memory_.data() + stripe * bytes_of_one(operation_, chunk_bytes, gap) +
           chunk * stride(chunk_bytes, gap);
  };
  for (std::size_t s = 0; s < count; ++s) {
    for (const unsigned chunk : operation_.reads) sources_[s].push_back({address(s, chunk), residence});
    for (unsigned t = 0; t < operation_.program->targets(); ++t)
      targets_[s].push_back({address(s, first_target + t), residence});
    std::ranges::transform(sources(s), std::back_inserter(source_addresses_[s]), &Source::data);
    std::ranges::transform(targets(s), std::back_inserter(target_addresses_[s]), &Target::data);
  }
  in_parallel(count * placed, [&](std::size_t i) {
    const auto chunk = static_cast<unsigned>(i % placed);
    const auto bytes = known_chunk(chunk);
    const std::size_t by = turned_by(i / placed);
    write(address(i / placed, chunk), bytes.subspan(by));
    write(address(i / placed, chunk) + bytes.size() - by, bytes.first(by));
  });
  // Memory that nobody has touched is slow at first.
  if (operation_.decodes()) in_parallel(count, [&](std::size_t s) { spoil(s); });
}

void Stripes::write(std::uint8_t* to, std::span<const std::uint8_t> bytes) const {
  if (!memory_.upload(to, bytes.data(), bytes.size())) throw std::runtime_error("cannot copy to the device");
}

void Stripes::spoil(std::size_t stripe) const {
  const std::vector<std::uint8_t> bytes(chunk_bytes(), spoilt);
  for (const Target& target : targets(stripe)) write(target.data, bytes);
}

bool Stripes::right(std::size_t stripe) const {
  const std::size_t by = turned_by(stripe);
  std::vector<std::uint8_t> held(chunk_bytes());
  for (unsigned t = 0; t < targets(stripe).size(); ++t) {
    const auto expected =
        known_chunk(operation_.decodes() ? operation_.plan->targets[t] : operation_.code->k() + t);
    const std::uint8_t* at = targets(stripe)[t].data;
    if (residence() == kernels::Residence::device) {
      if (!memory_.download(held.data(), at, held.size()))
        throw std::runtime_error("cannot copy from the device");
      at = held.data();
    }
    if (std::memcmp(at, expected.data() + by, expected.size() - by) != 0 ||
        std::memcmp(at + expected.size() - by, expected.data(), by) != 0)
      return false;
  }
  return true;
}

Contestant stripe_contestant(const std::string& name, unsigned threads, const Stripes& stripes,
                             std::function<Status(std::size_t)> code) {
  return {.name = name,
          .threads = threads,
          .run =
              [name, code = std::move(code)](std::size_t stripe) {
                if (const Status status = code(stripe); status != Status::ok)
                  throw std::runtime_error(fmt::format("{}: {}", name, kernels::name(status)));
              },
          .spoil = [&stripes](std::size_t stripe) { stripes.spoil(stripe); },
          .right = [&stripes](std::size_t stripe) { return stripes.right(stripe); }};
}

}  // namespace ec::bench
