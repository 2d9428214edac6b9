// The file of a mismatch: see reproducer.hpp.
#include "plugin/codec/checking/reproducer.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "plugin/codec/routing/machine.hpp"
#include "support/files.hpp"
#include "support/printable.hpp"

namespace ec::codec {
namespace {

static_assert(sizeof(Reproducer::Head) == 152 && sizeof(Reproducer::Place) == 4, "no padding");

constexpr unsigned page = 4096;
/// A chunk of Ceph's is shorter than 4 GiB.
constexpr std::uint64_t longest_chunk = std::uint64_t{1} << 32;
/// The year 9999.
constexpr std::uint64_t last_date = 253'402'300'799;
constexpr std::string_view prefix = "mismatch-";

template <std::size_t n>
void set_text(std::array<char, n>& to, std::string_view from) {
  std::copy_n(from.begin(), std::min(from.size(), n - 1), to.begin());
}

/// body(bytes) for each of the parts, head and all. R: const or not.
template <class R, class Body>
void each_part(R& r, Body&& body) {
  const auto part = [&](auto& list) { body(list.data(), list.size() * sizeof list[0]); };
  body(&r.head, sizeof r.head);
  part(r.places);
  for (auto* bytes : {&r.matrix, &r.sources, &r.before, &r.got, &r.expected}) part(*bytes);
}

/// As the head wants them.
void size_parts(Reproducer& r) {
  const std::size_t bytes = r.head.block_bytes, targets = r.head.targets * bytes;
  r.places.resize(r.head.sources + r.head.targets);
  r.matrix.resize(std::size_t{r.head.sources} * r.head.targets);
  r.sources.resize(r.head.sources * bytes);
  r.before.resize(r.verb() == kernels::Verb::accumulate ? targets : 0);
  r.got.resize(targets);
  r.expected.resize(targets);
}

std::size_t file_size(const Reproducer& r) {
  std::size_t sum = 0;
  each_part(r, [&](const void*, std::size_t bytes) { sum += bytes; });
  return sum;
}

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

std::string wrong_in(const Reproducer::Head& h) {
  return out_of_bounds(
      {{"verb", h.verb, 0, 1},
       {"sources", h.sources, 1, gf::max_chunks},
       {"targets", h.targets, 1, gf::max_chunks},
       {"chunk_bytes", h.chunk_bytes, 1, longest_chunk},
       {"stripes", h.stripes, 1, longest_chunk},
       {"block_bytes", h.block_bytes, 1, std::min<std::uint64_t>(h.chunk_bytes, longest_block(h.targets))},
       {"block_offset", h.block_offset, 0, h.chunk_bytes - h.block_bytes},
       {"date", h.date, 0, last_date}});
}

}  // namespace

Reproducer make_reproducer(std::string_view backend, std::string_view judge, std::size_t stripes,
                           const BlockViews& views, const SavedTargets* before, const std::uint8_t* got,
                           const std::uint8_t* expected) {
  const kernels::Job& job = views.job();
  const auto [offset, bytes] = views.block();
  Reproducer r;
  r.head.verb =
      static_cast<std::uint32_t>(before == nullptr ? kernels::Verb::transform : kernels::Verb::accumulate);
  r.head.sources = static_cast<std::uint32_t>(job.sources.size());
  r.head.targets = static_cast<std::uint32_t>(job.targets.size());
  r.head.block_bytes = static_cast<std::uint32_t>(bytes);
  r.head.block_offset = offset;
  r.head.chunk_bytes = job.bytes;
  r.head.stripes = stripes;
  r.head.date = static_cast<std::uint64_t>(std::time(nullptr));
  set_text(r.head.backend, backend);
  set_text(r.head.judge, judge);
  set_text(r.head.cpu, this_machine().cpu);
  size_parts(r);
  std::ranges::copy(job.program->matrix().cells(), r.matrix.begin());
  auto place = r.places.begin();
  const auto set_place = [&](kernels::Residence residence, const void* chunk) {
    *place++ = {static_cast<std::uint16_t>(residence),
                static_cast<std::uint16_t>(reinterpret_cast<std::uintptr_t>(chunk) % page)};
  };
  for (const auto& source : job.sources) set_place(source.residence, source.data);
  for (const auto& target : job.targets) set_place(target.residence, target.data);
  for (std::size_t i = 0; i < job.sources.size(); ++i)
    std::memcpy(r.sources.data() + i * bytes, views.source(i), bytes);
  for (std::size_t i = 0; i < job.targets.size(); ++i) {
    if (before != nullptr)
      std::memcpy(r.before.data() + i * bytes, before->bytes.data() + i * job.bytes + offset, bytes);
    std::memcpy(r.got.data() + i * bytes, got != nullptr ? got + i * bytes : views.target(i), bytes);
    std::memcpy(r.expected.data() + i * bytes, expected + i * bytes, bytes);
  }
  return r;
}

std::string to_file(const Reproducer& r) {
  std::string file;
  each_part(r,
            [&](const void* part, std::size_t bytes) { file.append(static_cast<const char*>(part), bytes); });
  return file;
}

std::optional<Reproducer> parse_reproducer(std::string_view file, std::string* why) {
  Reproducer r;
  const auto refuse = [&](std::string sentence) {
    *why = std::move(sentence);
    return std::nullopt;
  };
  if (!file.starts_with(std::string_view(r.head.magic.data(), r.head.magic.size())))
    return refuse("it is no reproducer of this version");
  if (file.size() < sizeof r.head) return refuse("it is cut short");
  std::memcpy(&r.head, file.data(), sizeof r.head);
  if (std::string wrong = wrong_in(r.head); !wrong.empty()) return refuse(std::move(wrong));
  size_parts(r);
  if (const std::size_t bytes = file_size(r); file.size() != bytes)
    return refuse(fmt::format("it has {} bytes, and must have {}", file.size(), bytes));
  each_part(r, [&](void* part, std::size_t bytes) {
    if (bytes != 0) std::memcpy(part, file.data(), bytes);
    file.remove_prefix(bytes);
  });
  for (const auto& place : r.places)
    if (std::string wrong = out_of_bounds(
            {{"residence", place.residence, 0, 2}, {"misalignment", place.misalignment, 0, page - 1}});
        !wrong.empty())
      return refuse(std::move(wrong));
  support::make_printable(r.head.backend);
  support::make_printable(r.head.judge);
  support::make_printable(r.head.cpu);
  return r;
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
  const std::string name = fmt::format("{}{}-{:%Y%m%dT%H%M%S}-{}.bin", prefix, reproducer.head.backend.data(),
                                       fmt::gmtime(static_cast<std::time_t>(reproducer.head.date)), getpid());
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
