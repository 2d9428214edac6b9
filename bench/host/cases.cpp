// Sections, options, and the cases that they make.
#include "bench/host/cases.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "bench/common/workers.hpp"

namespace ec::bench {
namespace {

using kernels::Residence;

constexpr std::size_t K = 1024;
constexpr std::size_t M = 1024 * K;
constexpr std::size_t G = 1024 * M;
constexpr std::size_t chunk_granule = 64;

/// Cases of one kind in a section.
struct Group {
  std::string section;
  std::vector<std::string> ops;
  std::vector<Shape> shapes;
  std::vector<std::size_t> chunks;
  std::vector<Residence> residences;
  std::vector<unsigned> threads;
  bool isal_on_all_cores;
};

const std::vector<std::string> every_section{"pinned", "device", "sizes", "router"};
const std::vector<std::string> every_op{"encode", "decode-1", "decode-m"};
const std::vector<std::string> every_backend{"cuda", "x86", "isal", "auto"};

std::vector<Group> groups() {
  const std::vector<std::size_t> sizes{4 * K, 16 * K, 64 * K, 256 * K, M, 4 * M, 16 * M, 64 * M};
  const std::vector<Shape> shapes{{4, 2}, {8, 3}, {10, 4}, {32, 8}};
  const std::vector pinned{Residence::pinned};
  return {{"pinned", every_op, {{10, 4}}, {64 * M}, pinned, {1}, true},
          {"pinned", every_op, {{8, 3}}, {4 * K, 64 * K, 256 * K, M}, pinned, {1, 8}, true},
          {"device", every_op, {{10, 4}}, {64 * M}, {Residence::device}, {1}, false},
          {"sizes", {"encode"}, {{10, 4}}, sizes, pinned, {1}, true},
          {"router", {"encode"}, shapes, sizes, {Residence::pageable, Residence::pinned}, {1, 8}, false}};
}

template <class T>
bool is_among(const std::vector<T>& list, const T& value) {
  return std::ranges::find(list, value) != list.end();
}

template <class T>
void add_once(std::vector<T>& list, const T& value) {
  if (!is_among(list, value)) list.push_back(value);
}

/// The device's memory is out of reach of the CPU back ends.
bool can_take_part(const std::string& backend, Residence residence) {
  return residence != Residence::device || backend == "cuda" || backend == "auto";
}

auto order(const HostCase& c) { return std::tuple(c.k, c.m, c.chunk_bytes, c.residence); }

void add_case(std::vector<HostCase>& cases, HostCase c) {
  const auto same = std::ranges::find_if(
      cases, [&](const HostCase& other) { return order(other) == order(c) && other.op == c.op; });
  if (same == cases.end()) {
    cases.push_back(std::move(c));
    return;
  }
  for (const HostEntrant& entrant : c.entrants) add_once(same->entrants, entrant);
  same->judges_router = same->judges_router || c.judges_router;
}

void add_cases(std::vector<HostCase>& cases, const Group& group, const std::vector<std::string>& backends) {
  for (const auto& [k, m] : group.shapes)
    for (const std::size_t chunk : group.chunks)
      for (const Residence residence : group.residences)
        for (const auto& op : group.ops) {
          // One lost chunk of one is all of them.
          if (op == "decode-m" && m == 1) continue;
          HostCase c{.op = op, .k = k, .m = m, .chunk_bytes = chunk, .residence = residence};
          c.technique = technique_for({k, m});
          c.judges_router = group.section == "router";
          for (const auto& backend : backends)
            for (const unsigned threads : group.threads)
              if (can_take_part(backend, residence)) add_once(c.entrants, {backend, threads});
          if (group.isal_on_all_cores && is_among<std::string>(backends, "isal"))
            add_once(c.entrants, {"isal", all_cores()});
          if (!c.entrants.empty()) add_case(cases, std::move(c));
        }
}

/// Of the sections that are asked for, with what the command line puts in the place of their own values.
std::vector<HostCase> cases_of(const CommandLine& line) {
  const auto sections = line.list("sections", every_section);
  const auto backends = line.list("backends", every_backend);
  const auto ops = line.list("ops", every_op);
  const auto shapes = line.shapes("shapes");
  const auto chunks = line.numbers("chunks", chunk_granule, G, chunk_granule);
  const auto threads = line.numbers("threads", 1, 1024);
  std::vector<HostCase> cases;
  for (Group& group : groups()) {
    if (!is_among(sections, group.section)) continue;
    if (!shapes.empty()) group.shapes = shapes;
    if (!chunks.empty()) group.chunks = chunks;
    if (!threads.empty()) group.threads.assign(threads.begin(), threads.end());
    std::erase_if(group.ops, [&](const auto& op) { return !is_among(ops, op); });
    add_cases(cases, group, backends);
  }
  if (cases.empty())
    throw UsageError(
        fmt::format("--sections, --ops and --backends {} leave nothing to measure", line.text("backends")));
  // Neighbours share their data, and the memory that holds it.
  std::ranges::stable_sort(cases, {}, order);
  return cases;
}

/// A fifth of the machine's memory, for there may be two residences; 24 GiB are enough for the documented
/// cases.
std::size_t default_largest_bytes() {
  const auto memory =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::min(24 * G, memory / 5);
}

/// Leaves out entrants whose stripes are larger than o.largest_bytes.
void leave_out_too_large(HostOptions& o) {
  for (HostCase& c : o.cases)
    std::erase_if(c.entrants, [&](const HostEntrant& entrant) {
      const std::size_t bytes = entrant.threads * c.stripe_bytes();
      if (bytes <= o.largest_bytes) return false;
      o.left_out.push_back(fmt::format("{}: {} with {} threads needs {} MiB", c.words(), entrant.backend,
                                       entrant.threads, bytes >> 20));
      return true;
    });
  std::erase_if(o.cases, [](const HostCase& c) { return c.entrants.empty(); });
  if (o.cases.empty())
    throw UsageError(fmt::format("--largest-bytes {}: is too small for every case", o.largest_bytes));
}

}  // namespace

CommandLine host_command_line() {
  CommandLine line("host");
  line.add("sections", "", fmt::format("of {}; default all", fmt::join(every_section, ", ")));
  line.add("backends", "", fmt::format("of {}; default all", fmt::join(every_backend, ", ")));
  line.add("ops", "",
           fmt::format("of {}, where the section has them; default all", fmt::join(every_op, ", ")));
  line.add("shapes", "", "data+coding chunks in place of the sections' own, as 8+3,10+4");
  line.add("chunks", "", "bytes of a chunk in place of the sections' own, suffixes K, M, G");
  line.add("threads", "", "threads in place of the sections' own, each making synchronous calls");
  line.add("processes", "1",
           "that measure the same on the same GPU at once, each with so many threads; GB/s are their sum, "
           "p50 and p99 "
           "those of all calls");
  line.add("rounds", "11", "samples of each entrant, taken in turn");
  line.add("sample-ms", "", "time of a sample; default 4, with --processes 100");
  line.add("warm-ms", "100", "that each entrant codes a case before it is timed");
  line.add("case-ms", "1500",
           "after this time a case gets no further round, once there are three; not with --processes");
  line.add("link-bytes", "512M", "of a transfer that measures the link");
  line.add("largest-bytes", "",
           "of a case's stripes; what needs more is left out and named; default 24G, a fifth of the memory "
           "at most, "
           "shared by the processes");
  line.add("json", "", "write the report to this file too");
  return line;
}

unsigned HostCase::most_threads() const {
  return std::ranges::max(entrants, {}, &HostEntrant::threads).threads;
}

std::string HostCase::words() const {
  return fmt::format("{} {}+{}, chunks of {} bytes, {}", op, k, m, chunk_bytes, kernels::name(residence));
}

HostOptions host_options(const CommandLine& line) {
  HostOptions o;
  o.cases = cases_of(line);
  o.rounds = line.number("rounds", 1, 10'000);
  o.processes = static_cast<unsigned>(line.number("processes", 1, 256));
  o.sample_seconds = line.given("sample-ms") ? line.seconds("sample-ms") : o.processes > 1 ? 0.1 : 0.004;
  o.warm_seconds = line.seconds("warm-ms");
  // Processes would not agree on it.
  o.case_seconds = o.processes > 1 ? std::numeric_limits<double>::infinity() : line.seconds("case-ms");
  o.link_bytes = line.number("link-bytes", M, 8 * G);
  o.largest_bytes = line.given("largest-bytes") ? line.number("largest-bytes", 1, 16384 * G)
                                                : default_largest_bytes() / o.processes;
  o.json_file = line.text("json");
  leave_out_too_large(o);
  return o;
}

}  // namespace ec::bench
