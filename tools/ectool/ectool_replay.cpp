// ectool replay: see commands.hpp.
#include "tools/ectool/commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "kernels/backends.hpp"
#include "kernels/transfer.hpp"
#include "plugin/codec/checking/reproducer.hpp"
#include "plugin/codec/checking/validator.hpp"
#include "support/files.hpp"
#include "tools/ectool/ectool_device.hpp"
#include "tools/ectool/name_values.hpp"
#include "tools/ectool/printable.hpp"

namespace ec::tools {
namespace {

using kernels::Residence;
using kernels::Status;
using kernels::Verb;
using Bytes = std::vector<std::uint8_t>;

/// Products of a byte by a coefficient: a second of work for the reference back end.
constexpr std::uint64_t most_products = std::uint64_t{1} << 27;

/// The call, or the part of it with the block in it.
struct Call {
  Verb verb;
  std::string backend;
  std::uint64_t bytes, block_at, block_bytes;  ///< of each chunk
  std::vector<std::uint8_t> misalignments;
  std::unique_ptr<kernels::Program> program;
  std::vector<Bytes> sources, before, got;  ///< whole chunks, but blocks of `got`
};

Call parse(const std::string& file) {
  constexpr std::array<std::string_view, 7> names{"backend", "verb",   "sources", "targets",
                                                  "chunk",   "offset", "block"};
  constexpr std::string_view begin = codec::reproducer_begin;
  const auto end = file.find('\n');
  if (!file.starts_with(begin) || end == std::string::npos)
    throw codec::SetupError(EINVAL, "it is no reproducer of this version");
  std::string head = file.substr(begin.size(), end - begin.size());
  make_printable(head);
  std::istringstream words(head);
  const std::vector<std::string> pairs(std::istream_iterator<std::string>(words), {});
  const NameValues given(pairs, names);

  Call call{};
  call.backend = given.text("backend");
  call.verb = static_cast<Verb>(given.one_of("verb", codec::verb_names));
  const auto sources = static_cast<unsigned>(given.number("sources", 1, gf::max_chunks));
  const auto targets = static_cast<unsigned>(given.number("targets", 1, gf::max_chunks));
  const std::uint64_t chunk = given.number("chunk", 1, std::uint64_t{1} << 32);
  const std::size_t block = given.number("block", 1, std::min(chunk, codec::longest_block(targets)));
  const std::uint64_t offset = given.number("offset", 0, chunk - block);
  const unsigned rounds = call.verb == Verb::accumulate ? 2 : 1;
  const std::size_t length = end + 1 + sources + targets + std::size_t{sources} * targets +
                             block * (sources + std::size_t{rounds} * targets);
  if (file.size() != length)
    throw codec::SetupError(EINVAL, fmt::format("it has {} bytes, and must have {}", file.size(), length));

  call.bytes = std::min(chunk, std::max<std::uint64_t>(most_products / (sources * targets), block));
  const std::uint64_t first = std::min(offset, chunk - call.bytes);
  call.block_at = offset - first;
  call.block_bytes = block;
  auto at = file.begin() + static_cast<std::ptrdiff_t>(end) + 1;
  const auto take = [&](std::size_t count) {
    at += static_cast<std::ptrdiff_t>(count);
    return Bytes(at - static_cast<std::ptrdiff_t>(count), at);
  };
  call.misalignments = take(sources + targets);
  for (auto& each : call.misalignments) each = static_cast<std::uint8_t>(each + first);
  gf::Matrix matrix(targets, sources);
  for (unsigned row = 0; row < targets; ++row) std::ranges::copy(take(sources), matrix.row(row).begin());
  call.program = std::make_unique<kernels::Program>(std::move(matrix));
  const auto take_whole = [&](std::size_t seed) {
    Bytes whole(call.bytes);
    for (std::size_t i = 0; i < call.bytes; ++i)
      whole[i] =
          static_cast<std::uint8_t>((i + seed * 1'000'003 + 1) * std::uint64_t{0x9e3779b97f4a7c15} >> 56);
    std::ranges::copy(take(block), whole.begin() + static_cast<std::ptrdiff_t>(call.block_at));
    return whole;
  };
  for (unsigned i = 0; i < sources; ++i) call.sources.push_back(take_whole(i));
  for (unsigned i = 0; i < targets; ++i)
    call.before.push_back(rounds == 2 ? take_whole(sources + i) : Bytes(call.bytes));
  for (unsigned i = 0; i < targets; ++i) call.got.push_back(take(block));
  return call;
}

/// The targets that `backend` makes; nothing if it does not take the job. Throws std::runtime_error if it
/// fails, or there is no such memory.
std::optional<std::vector<Bytes>> made_by(kernels::Backend& backend, const Call& call, Residence residence) {
  constexpr std::size_t unit = 256;
  const Chunks memory(call.misalignments.size(), call.bytes + unit, residence);
  std::vector<kernels::Source> sources;
  std::vector<kernels::Target> targets;
  std::vector<kernels::Transfer> in, out;
  std::vector<Bytes> made(call.before.size(), Bytes(call.bytes));
  for (std::size_t i = 0; i < call.misalignments.size(); ++i) {
    std::uint8_t* data = memory.target(i).data;
    data += (call.misalignments[i] - reinterpret_cast<std::uintptr_t>(data)) % unit;
    const std::size_t target = i - call.sources.size();
    const Bytes& content = i < call.sources.size() ? call.sources[i] : call.before[target];
    in.push_back({data, residence, const_cast<std::uint8_t*>(content.data()), call.bytes});
    if (i < call.sources.size()) {
      sources.push_back({data, residence});
    } else {
      out.push_back({data, residence, made[target].data(), call.bytes});
      targets.push_back({data, residence});
    }
  }
  const kernels::Job job{call.program.get(), sources, targets, call.bytes};
  Status status = kernels::store(in);
  if (status == Status::ok) status = codec::perform(backend, {call.verb, {&job, 1}});
  if (status == Status::unsupported) return std::nullopt;
  if (status == Status::ok) status = kernels::fetch(out);
  if (status != Status::ok) throw std::runtime_error(fmt::format("answers {}", kernels::name(status)));
  return made;
}

/// "right", or the first byte that is not. made: whole targets, or only their blocks.
std::string verdict(const Call& call, const std::vector<Bytes>& made, const std::vector<Bytes>& truth) {
  for (std::size_t t = 0; t < truth.size(); ++t) {
    const std::size_t first = made[t].size() == call.bytes ? 0 : call.block_at;
    const auto [have, want] =
        std::ranges::mismatch(made[t], std::span(truth[t]).subspan(first, made[t].size()));
    if (have != made[t].end())
      return fmt::format("WRONG: byte {} of target {} is {:#04x} and must be {:#04x}",
                         static_cast<std::ptrdiff_t>(first) + (have - made[t].begin()), t, *have, *want);
  }
  return "right";
}

std::string try_out(kernels::Backend& backend, const Call& call, const std::vector<Bytes>& truth,
                    Residence residence) try {
  const auto made = made_by(backend, call, residence);
  return made ? verdict(call, *made, truth) : "does not take this here";
} catch (const std::runtime_error& e) {
  return fmt::format("FAILED: {}", e.what());
}

}  // namespace

bool replay(const std::string& path, const codec::NodeSettings& node, const Say& say) {
  constexpr std::size_t largest = std::size_t{2} << 20;  // with the most chunks there can be
  std::string file, why;
  if (const int error = support::read_file(AT_FDCWD, path, support::Trust::anyone, largest, &file, &why);
      error != 0)
    throw codec::SetupError(-error, why);
  const Call call = parse(file);
  const auto truth = made_by(*kernels::backends().back(), call, Residence::pageable).value();
  say(fmt::format("{} {}x{}, {} bytes of each chunk, block of {} at {}",
                  codec::verb_names[static_cast<std::size_t>(call.verb)], call.before.size(),
                  call.sources.size(), call.bytes, call.block_bytes, call.block_at));
  say(fmt::format("{:<15} {}: {}", "recorded", call.backend, verdict(call, call.got, truth)));
  bool all_right = true;
  const std::string device = device_name(node, &why);
  for (const auto list : {kernels::backends(), kernels::variants()})
    for (kernels::Backend* backend : list) {
      const bool on_device = backend->name().starts_with("cuda");
      for (const auto residence : {Residence::pageable, Residence::pinned, Residence::device}) {
        if (!on_device && residence != Residence::pageable) continue;
        const std::string said = on_device && device.empty() ? fmt::format("no GPU ({})", why)
                                                             : try_out(*backend, call, truth, residence);
        if (said.starts_with("WRONG") || said.starts_with("FAILED")) all_right = false;
        say(fmt::format("{:<15} {}{}", backend->name(),
                        on_device ? fmt::format("{}: ", kernels::name(residence)) : "", said));
      }
    }
  return all_right;
}

}  // namespace ec::tools
