// The file of a mismatch: see reproducer.hpp.
#include "plugin/codec/checking/reproducer.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <vector>

#include "support/files.hpp"
#include "support/printable.hpp"

namespace ec::codec {
namespace {

using Head = Reproducer::Head;
using Place = Reproducer::Place;
static_assert(sizeof(Head) == 80 && sizeof(Place) == 4, "no padding");

constexpr unsigned page = 4096;
/// A chunk of Ceph's is shorter than 4 GiB.
constexpr std::uint64_t longest_chunk = std::uint64_t{1} << 32;
constexpr std::string_view prefix = "mismatch-";

/// Where the matrix and block n begin behind the head.
std::size_t matrix_at(const Head& h) { return sizeof(Place) * (h.sources + h.targets); }
std::size_t block_at(const Head& h, std::size_t n) {
  return matrix_at(h) + std::size_t{h.sources} * h.targets + n * h.block_bytes;
}
/// Which of the blocks is the first one of `part`.
std::size_t first_block(const Head& h, int part) {
  const int of_before = h.verb == static_cast<std::uint32_t>(kernels::Verb::accumulate) ? 1 : 0;
  const int rounds[] = {0, 0, of_before, of_before + 1, of_before + 2};  // of targets, after the sources
  return part == Reproducer::source
             ? 0
             : h.sources + std::size_t{h.targets} * static_cast<unsigned>(rounds[part]);
}
std::size_t bytes_behind(const Head& h) { return block_at(h, first_block(h, Reproducer::expected + 1)); }

struct Bound {
  const char* name;
  std::uint64_t value, lowest, highest;
};

/// The first that is not within its bounds, in words; or nothing. Each relies on those before it.
std::string out_of_bounds(std::initializer_list<Bound> bounds) {
  for (const auto& [name, value, lowest, highest] : bounds)
    if (value < lowest || value > highest)
      return fmt::format("{} must be a whole number from {} to {}", name, lowest, highest);
  return {};
}

/// Why there is no such reproducer; empty if there is.
std::string wrong_in(const Reproducer& r) {
  const Head& h = r.head;
  std::string wrong = out_of_bounds(
      {{"verb", h.verb, 0, 1},
       {"sources", h.sources, 1, gf::max_chunks},
       {"targets", h.targets, 1, gf::max_chunks},
       {"chunk_bytes", h.chunk_bytes, 1, longest_chunk},
       {"stripes", h.stripes, 1, longest_chunk},
       {"block_bytes", h.block_bytes, 1, std::min<std::uint64_t>(h.chunk_bytes, longest_block(h.targets))},
       {"block_offset", h.block_offset, 0, h.chunk_bytes - h.block_bytes}});
  if (!wrong.empty()) return wrong;
  if (const std::size_t bytes = bytes_behind(h); r.behind.size() != bytes)
    return fmt::format("it has {} bytes, and must have {}", sizeof h + r.behind.size(), sizeof h + bytes);
  for (std::size_t i = 0; i < h.sources + h.targets && wrong.empty(); ++i)
    wrong = out_of_bounds(
        {{"residence", r.place(i).residence, 0, 2}, {"misalignment", r.place(i).misalignment, 0, page - 1}});
  return wrong;
}

}  // namespace

Place Reproducer::place(std::size_t chunk) const {
  Place found;
  std::memcpy(&found, behind.data() + chunk * sizeof found, sizeof found);
  return found;
}

gf::Matrix Reproducer::matrix() const {
  gf::Matrix matrix(head.targets, head.sources);
  for (unsigned row = 0; row < head.targets; ++row)
    std::memcpy(matrix.row(row).data(), behind.data() + matrix_at(head) + std::size_t{row} * head.sources,
                head.sources);
  return matrix;
}

std::span<const std::uint8_t> Reproducer::block(Part part, std::size_t i) const {
  const char* at = behind.data() + block_at(head, first_block(head, part) + i);
  return {reinterpret_cast<const std::uint8_t*>(at), head.block_bytes};
}

Reproducer make_reproducer(std::string_view backend, std::string_view judge, std::size_t stripes,
                           const BlockViews& views, const SavedTargets* before, const std::uint8_t* got,
                           const std::uint8_t* expected) {
  const kernels::Job& job = views.job();
  const auto [offset, bytes] = views.block();
  const auto verb = before == nullptr ? kernels::Verb::transform : kernels::Verb::accumulate;
  Reproducer r;
  r.head.verb = static_cast<std::uint32_t>(verb);
  r.head.sources = static_cast<std::uint32_t>(job.sources.size());
  r.head.targets = static_cast<std::uint32_t>(job.targets.size());
  r.head.block_bytes = static_cast<std::uint32_t>(bytes);
  r.head.block_offset = offset;
  r.head.chunk_bytes = job.bytes;
  r.head.stripes = stripes;
  backend.copy(r.head.backend.data(), r.head.backend.size() - 1);
  judge.copy(r.head.judge.data(), r.head.judge.size() - 1);

  const auto add = [&](const void* from, std::size_t count) {
    r.behind.append(static_cast<const char*>(from), count);
  };
  const auto add_place = [&](const auto& chunk) {
    const auto above = static_cast<std::uint16_t>(reinterpret_cast<std::uintptr_t>(chunk.data) % page);
    const Place place{static_cast<std::uint16_t>(chunk.residence), above};
    add(&place, sizeof place);
  };
  const std::size_t targets = job.targets.size();
  for (const auto& source : job.sources) add_place(source);
  for (const auto& target : job.targets) add_place(target);
  add(job.program->matrix().cells().data(), job.program->matrix().cells().size());
  for (std::size_t i = 0; i < job.sources.size(); ++i) add(views.source(i), bytes);
  for (std::size_t i = 0; before != nullptr && i < targets; ++i)
    add(before->bytes.data() + i * job.bytes + offset, bytes);
  for (std::size_t i = 0; i < targets; ++i) add(got != nullptr ? got + i * bytes : views.target(i), bytes);
  add(expected, targets * bytes);
  return r;
}

std::string to_file(const Reproducer& r) {
  return std::string(reinterpret_cast<const char*>(&r.head), sizeof r.head) + r.behind;
}

std::optional<Reproducer> parse_reproducer(std::string_view file, std::string* why) {
  Reproducer r;
  why->clear();
  if (!file.starts_with(std::string_view(r.head.magic.data(), r.head.magic.size()))) {
    *why = "it is no reproducer of this version";
  } else if (file.size() < sizeof r.head) {
    *why = "it is cut short";
  } else {
    std::memcpy(&r.head, file.data(), sizeof r.head);
    r.behind = file.substr(sizeof r.head);
    *why = wrong_in(r);
  }
  support::make_printable(r.head.backend);
  support::make_printable(r.head.judge);
  return why->empty() ? std::optional(std::move(r)) : std::nullopt;
}

std::string write_reproducer(const std::string& directory, const Reproducer& reproducer, std::string* why) {
  const auto refuse = [&](const std::string& sentence) {
    *why = fmt::format("{}: {}", directory, sentence);
    return std::string();
  };
  mkdir(directory.c_str(), 0700);
  support::Descriptor opened;
  std::string untrusted;
  if (support::open_directory(directory, support::Trust::root_or_self, &opened, &untrusted) != 0)
    return refuse(untrusted);
  std::vector<std::string> names;
  int error = support::list_directory(opened.get(), &names);
  if (std::ranges::count_if(names, [](const auto& name) { return name.starts_with(prefix); }) >=
      most_reproducers)
    return refuse(fmt::format("it holds {} of them already, which is all that are kept", most_reproducers));
  const std::string name =
      fmt::format("{}{}-{}-{}.bin", prefix, reproducer.head.backend.data(), std::time(nullptr), getpid());
  if (error == 0)
    error = support::write_new_file(opened.get(), name, to_file(reproducer), 0600, support::Sync::yes);
  if (error != 0) return refuse(fmt::format("it cannot be written to: {}", std::strerror(-error)));
  return directory + "/" + name;
}

std::optional<Reproducer> read_reproducer(const std::string& path, std::string* why) {
  std::string file;
  if (support::read_file(AT_FDCWD, path, support::Trust::anyone, largest_reproducer, &file, why) != 0)
    return std::nullopt;
  return parse_reproducer(file, why);
}

}  // namespace ec::codec
